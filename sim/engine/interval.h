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

/* Columns of the slice of a hidden vector's matrix that each tensor rank has. */
double interval_slice(const struct model *model, int tp);

/* Half width in log time: sqrt(scatter^2 + shift^2 + slice^2). The scatter of single runs is
 * computed from the widths by class of time of the stack (training software), or is its error_log
 * if it has no widths. The shift is interval_source_error, and the slice's part is
 * interval_slice_error. If the stack has no error, or if the profile was not measured or its
 * measurement was disturbed, the result is at least the profile's error_log. */
double interval_half_width(const struct system *system, const struct model *model, int tp,
                           const struct time_parts *parts);

/* Half width of the change of a common shift with the width of slices: `per_e` for each factor e
 * between a slice, given by its logarithm, and the usual one. */
double interval_of_slice(double per_e, double usual, double log_slice);

/* The same for a stack on which nothing was fitted, by its slice_error and usual_slice; else 0. */
double interval_slice_error(const struct stack *stack, const struct model *model, int tp);

/* Half width of the common shift of all runs of this stack, GPU and kind of model (dense or with
 * experts). 0 if such runs were fitted. */
double interval_source_error(const struct system *system, const struct model *model);

#endif
