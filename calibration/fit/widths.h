/* calibration/fit/widths.h - the interval widths needed, by software family and by part of a
 * step.
 *
 * An error is modelled as a sum of independent errors: one of the whole step, and one of each part
 * in proportion to its share. So log(predicted / measured) has the variance sum of share^2 x v. The
 * v are found by expectation maximisation (Dempster, Laird and Rubin 1977) on held-out rows: first
 * over all families together, with the prior of fit.json, then per family, with the pooled result
 * as prior; a prior counts as prior_rows rows. Errors are not normal, so each family's widths are
 * then scaled to cover nine in ten of its rows (split conformal, as in interval.h); with fewer than
 * nine rows, of all families' rows. */
#ifndef CALIBRATION_FIT_WIDTHS_H
#define CALIBRATION_FIT_WIDTHS_H

#include "calibration/fit/fit.h"
#include "sim/cost/error_widths.h"

enum { FEWEST_TO_SCALE = 9 }; /* a family with fewer rows has the pooled scale */

struct family_widths {
    const char *stack;
    int rows; /* held-out rows on measured profiles; 0: it has the pooled widths */
    struct error_widths widths;
    double memory;   /* half width of the log of its peak memory */
    double covered;  /* share of the rows within; NaN without rows */
    double left_out; /* the same with widths refitted without the row's fold (one of five) */
};

/* Rows of one family are adjacent. */
struct width_row {
    const char *stack;
    double error;
    double shares[NUM_ERROR_PARTS];
};
/* `out`: one entry per family, in the order of the rows, then the pooled one. Returns their number,
 * at most count + 1. Not rounded. */
int widths_find(const struct width_rules *rules, const struct width_row *rows, int count,
                struct arena *arena, struct family_widths *out);

#endif
