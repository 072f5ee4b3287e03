/* sim/engine/interval.h - the 90 % interval of a prediction, by what its step is made of. */
#ifndef SIM_ENGINE_INTERVAL_H
#define SIM_ENGINE_INTERVAL_H

#include "sim/cost/hardware.h"
#include "sim/engine/time_parts.h"

/* The share of the step that each error width counts for: 1 of `common`, then what the parts have
 * of their sum; a part below 0 is none. */
void interval_shares(const struct time_parts *parts, double shares[NUM_ERROR_PARTS]);

/* Half width in log time by those shares alone. */
double interval_of_widths(const struct error_widths *widths, const double shares[NUM_ERROR_PARTS]);

/* Half width in log time, the root of (a row's scatter)^2 + (its source's shift)^2: the stack's, by
 * part, or its error_log where it has no widths, which comes from whole runs, where the profile is
 * measured too; else, and where that was disturbed, the wider of that and the profile's. What was
 * never measured shifts by the wider source_error of the stack and the profile. */
double interval_half_width(const struct system *system, const struct time_parts *parts);

#endif
