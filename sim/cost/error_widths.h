/* sim/cost/error_widths.h - how far off predictions of a software family are, by part of a step's
 * time. */
#ifndef SIM_COST_ERROR_WIDTHS_H
#define SIM_COST_ERROR_WIDTHS_H

#include "base/field.h"

/* Half widths in log time, out of sample, of the 90 % interval of a step that consists of one part
 * alone. A step's half width is sqrt(sum of (share x width)^2), with `common` at share 1, as the
 * errors of parts are taken as independent. */
struct error_widths {
    double common;
    double compute; /* products, attention and memory traffic, with recompute */
    double tensor, context, pipeline, bubble;
    double data; /* exposed collectives of data and expert groups */
    double optimizer;
    double other; /* host, stragglers */
};

enum { NUM_ERROR_PARTS = sizeof(struct error_widths) / sizeof(double) };

/* One row per member, in the order of the struct. */
extern const struct field error_width_fields[];
extern const size_t num_error_width_fields;

/* Reads and sets the i-th width; `common` is the first. */
double error_width(const struct error_widths *widths, int i);
void error_width_set(struct error_widths *widths, int i, double value);

#endif
