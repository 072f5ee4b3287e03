/* sim/cost/error_widths.h - how far off predictions of a software family are, by what a step's time
 * goes to. */
#ifndef SIM_COST_ERROR_WIDTHS_H
#define SIM_COST_ERROR_WIDTHS_H

#include "base/field.h"

/* Half widths in log time, out of sample, of the 90 % interval of a step that were nothing but that
 * part. A step's own is the root of the sum of (its share x width)^2, with `common` for all of it:
 * parts err each for itself. */
struct error_widths {
    double common;
    double compute; /* products, attention and traffic, recomputed ones too */
    double tensor, context, pipeline, bubble;
    double data; /* and experts: what crosses nodes in large groups */
    double optimizer;
    double other; /* host, stragglers */
};

enum { NUM_ERROR_PARTS = sizeof(struct error_widths) / sizeof(double) };

/* A row each, in the order of the struct. */
extern const struct field error_width_fields[];
extern const size_t num_error_width_fields;

/* The i-th of them, `common` first. */
double error_width(const struct error_widths *widths, int i);
void error_width_set(struct error_widths *widths, int i, double value);

#endif
