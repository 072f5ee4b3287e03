/* calibration/fit/widths.h - fits the interval widths of each stack, by class of time in a step
 * (compute, messages of each axis, ...).
 *
 * An error is modelled as a sum of independent errors: one of the whole step, and one of each class
 * of time in proportion to its share of the step. So log(predicted / measured) has the variance sum
 * of share^2 x v over the parts. The v are found by expectation maximisation (Dempster, Laird and
 * Rubin 1977) on held-out rows (measured runs): first over the rows of all stacks, with the prior
 * of fit.json, then per stack, with the pooled result as prior. A prior has the weight of
 * prior_rows rows. As errors are not normally distributed, each stack's widths are then scaled to
 * cover 90 % of its rows (split conformal prediction, as in interval.h); with fewer than nine rows
 * the scale is that of all stacks. */
#ifndef CALIBRATION_FIT_WIDTHS_H
#define CALIBRATION_FIT_WIDTHS_H

#include "calibration/fit/fit.h"
#include "sim/cost/error_widths.h"

enum { FEWEST_TO_SCALE = 9 }; /* a stack with fewer rows has the pooled scale */

struct family_widths {
    const char *stack;
    int rows; /* number of held-out rows on measured profiles; 0: the stack has the pooled widths */
    struct error_widths widths;
    double memory; /* half width of the interval of the log of peak memory */
    /* expected logarithm of real / predicted peak, for a stack without measured peaks */
    double memory_shift;
    double covered;  /* share of the rows within these widths; NaN without rows */
    double left_out; /* the same share with widths refitted without the row's fold (one of five) */
};

/* One row's error and shares. Rows of one stack are adjacent. */
struct width_row {
    const char *stack;
    double error;
    double shares[NUM_ERROR_PARTS];
};
/* Writes one entry per stack, in the order of the rows, then the pooled one, to `out`. Returns
 * their number, at most count + 1. Widths are not rounded. */
int widths_find(const struct width_rules *rules, const struct width_row *rows, int count,
                struct arena *arena, struct family_widths *out);

#endif
