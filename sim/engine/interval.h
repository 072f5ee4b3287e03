/* sim/engine/interval.h - the 90 % interval of a prediction, from the parts of its step. */
#ifndef SIM_ENGINE_INTERVAL_H
#define SIM_ENGINE_INTERVAL_H

#include "sim/cost/hardware.h"
#include "sim/engine/time_parts.h"

/* The weight of each error width: 1 for `common`, then each part's fraction of their sum; a
 * negative part counts as 0. */
void interval_shares(const struct time_parts *parts, double shares[NUM_ERROR_PARTS]);

/* Half width in log time, from those weights alone. */
double interval_of_widths(const struct error_widths *widths, const double shares[NUM_ERROR_PARTS]);

/* Half width in log time, the root of (a row's scatter)^2 + (its source's shift)^2: the stack's, by
 * part, or its error_log where it has no widths, which comes from whole runs, where the profile is
 * measured too; else, and where that was disturbed, the wider of that and the profile's. What was
 * never measured shifts by the wider source_error of the stack and the profile. */
double interval_half_width(const struct system *system, const struct model *model,
                           const struct time_parts *parts);

/* Half width of the shift that all runs of this stack, GPU and sort of model have in common; 0:
 * such runs were fitted. */
double interval_source_error(const struct system *system, const struct model *model);

#endif
