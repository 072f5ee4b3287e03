/* calibration/widths.h - how wide intervals have to be, by software family and by what a step is
 * made of.
 *
 * An error is modelled as the sum of independent errors, one of the whole step and one of each
 * part, in proportion to the part's share: log(predicted / measured) has the variance sum of
 * share^2 x v. The v are found by expectation maximisation (Dempster, Laird and Rubin 1977) on
 * held-out rows: first over all families together, from the prior of fit.json, then for each
 * family, from the result for all; a prior counts as so many rows. Errors are not normal, so each
 * family's widths are then scaled to cover nine in ten of its rows (split conformal, as in
 * interval.h), or of all families' rows where it has fewer than nine. */
#ifndef CALIBRATION_WIDTHS_H
#define CALIBRATION_WIDTHS_H

#include "calibration/fit.h"
#include "sim/cost/error_widths.h"

enum { FEWEST_TO_SCALE = 9 }; /* a family of fewer rows has the scale of all */

struct family_widths {
    const char *stack;
    int rows; /* held-out ones on measured profiles; 0: it has the widths of all families */
    struct error_widths widths;
    double covered;  /* share of the rows that lie within; NaN of none */
    double left_out; /* the same by widths refitted without the row's fold, of five */
};

/* Rows of one family stand together. */
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
