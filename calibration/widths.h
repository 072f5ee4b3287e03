/* calibration/widths.h - how wide intervals have to be, by software family and by what a step is
 * made of.
 *
 * An error is taken for the sum of independent errors, one common to the step and one of each part,
 * as large as the part's share: log(predicted / measured) has the variance sum of share^2 x v. The
 * v are found by expectation maximisation (Dempster, Laird and Rubin 1977) on rows that no constant
 * was fitted on: first over all families alike, from the prior of fit.json, then for each family,
 * from what all have; a prior counts as so many rows. Errors are not normal, so each family's
 * widths are then scaled to hold nine in ten of its rows (split conformal, as in interval.h), or of
 * all families' where it has fewer than nine. Such a family that no constant was fitted for has the
 * mean square of log(fitted / prior) of the others' product_efficiency in its compute too. */
#ifndef CALIBRATION_WIDTHS_H
#define CALIBRATION_WIDTHS_H

#include "calibration/fit.h"
#include "sim/cost/error_widths.h"

struct family_widths {
    const char *stack;
    int rows; /* that no constant was fitted on, on measured profiles; 0: what all families have */
    struct error_widths widths;
    double covered;  /* share of the rows that lie within; NaN of none */
    double left_out; /* the same by widths that are found without the row's fold, of five */
};

struct families {
    struct arena arena;
    struct family_widths *at; /* shipped stacks, by name, but those that state no error and have no
                                 rows: they have their profile's */
    int count;
    int rows;                 /* of all */
    double covered, left_out; /* of all */
};

/* On the shipped runs, predicted with the constants of `results`. The table must have rules of
 * intervals. Release in either case. */
bool families_find(const struct fit_table *table, const struct fit_result *results, int num_results,
                   int jobs, struct families *out, struct err *err);
void families_release(struct families *families);

/* NULL when there is none of this name. */
const struct family_widths *families_of(const struct families *families, const char *stack);

/* The heart of it, for tests. Rows of one family stand together. */
struct width_row {
    const char *stack;
    double error;
    double shares[NUM_ERROR_PARTS];
};
/* `out`: one a family, in the order of the rows, and the pooled one last; as many as it returns,
 * at most count + 1. Not rounded. */
int widths_find(const struct width_rules *rules, const struct width_row *rows, int count,
                struct arena *arena, struct family_widths *out);

#endif
