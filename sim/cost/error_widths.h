/* sim/cost/error_widths.h - 90 % intervals of predictions for a software stack, by class of time in
 * a step (compute, messages of each axis, ...). */
#ifndef SIM_COST_ERROR_WIDTHS_H
#define SIM_COST_ERROR_WIDTHS_H

#include "base/field.h"

/* Half widths of 90 % intervals in log time, from runs outside the fit. Each is the half width for
 * a step whose whole time is of this class. The errors of the classes are assumed independent, so a
 * step's half width is sqrt(sum of (share x width)^2), with a share of 1 for `common`. */
struct error_widths {
    double common;
    double compute; /* matrix products, attention and memory traffic, also of recompute */
    double tensor, context, pipeline, bubble;
    double data; /* exposed collectives of data and expert groups */
    double optimizer;
    double other; /* host overhead, stragglers */
};

enum { NUM_ERROR_PARTS = sizeof(struct error_widths) / sizeof(double) };

/* One row per member, in the order of the struct. */
extern const struct field error_width_fields[];
extern const size_t num_error_width_fields;

/* Reads and sets the i-th width; `common` is the first. */
double error_width(const struct error_widths *widths, int i);
void error_width_set(struct error_widths *widths, int i, double value);

#endif
