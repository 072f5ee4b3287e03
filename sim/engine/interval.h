/* sim/engine/interval.h - the 90 % interval of a prediction, from the classes of time in its step
 * (time_parts.h). */
#ifndef SIM_ENGINE_INTERVAL_H
#define SIM_ENGINE_INTERVAL_H

#include "sim/cost/hardware.h"
#include "sim/engine/time_parts.h"

/* The weight of each interval width: 1 for `common`, then each class's share of the step's time; a
 * negative time counts as 0. */
void interval_shares(const struct time_parts *parts, double shares[NUM_ERROR_PARTS]);

/* Half width in log time from these weights. */
double interval_of_widths(const struct error_widths *widths, const double shares[NUM_ERROR_PARTS]);

/* Hidden size divided by tensor ranks: the columns of a rank's slice of a weight matrix. */
double interval_slice(const struct model *model, int tp);

/* Half width in log time: sqrt(scatter^2 + shift^2 + slice^2). The shift is the error that all runs
 * of a stack or GPU have in common; it grows with the distance of the slice (interval_slice) from
 * the usual one. The scatter of single runs is computed from the widths by class of time of the
 * stack (training software), or is its error_log if it has no widths. `shift` is
 * interval_source_error and `slice` interval_slice_error. If the stack has no error, or if the
 * profile was not measured or its measurement was disturbed, the result is at least the profile's
 * error_log. */
double interval_half_width(const struct system *system, const struct model *model, int tp,
                           const struct time_parts *parts);

/* Half width of the change of the shift with the slice: `per_e` for each factor e between the
 * slice, given as its logarithm, and the usual slice. */
double interval_of_slice(double per_e, double usual, double log_slice);

/* interval_of_slice for a stack on which nothing was fitted, with its slice_error and usual_slice;
 * else 0. */
double interval_slice_error(const struct stack *stack, const struct model *model, int tp);

/* Half width of the shift of all runs of this stack, GPU and kind of model (dense or with experts);
 * 0 if such runs were fitted. */
double interval_source_error(const struct system *system, const struct model *model);

#endif
