/* calibration/fit/stack_widths.h - the interval widths of all shipped stacks, and their coverage.
 *
 * A row is one shipped measured run. calibration/fit/widths.h fits the widths on held-out rows
 * whose stack and GPU were measured. A stack without such rows gets the widths that are fitted on
 * the rows of all stacks together. The rows are divided into five folds. Coverage is counted twice:
 * with these widths, and with widths refitted without the fold that holds the row. */
#ifndef CALIBRATION_FIT_STACK_WIDTHS_H
#define CALIBRATION_FIT_STACK_WIDTHS_H

#include "calibration/fit/widths.h"
#include "sim/engine/tier.h"

/* Change of a source's shift with the width of a rank's slice of a matrix
 * (calibration/fit/source_shifts.h). */
struct slice_trend {
    double width; /* half width of its 90 % interval, in log time, per factor e */
    double usual; /* columns at which the shift is the source's */
};

struct families {
    struct arena arena;
    /* Shipped stacks, by name. A stack that states no errors and has no rows is left out: it uses
     * the widths of its profile. */
    struct family_widths *at;
    int count;
    double
        shift[NUM_TIERS]; /* half width of each tier's shift, from left_out.json; 0 for TIER_SEEN */
    struct slice_trend slice; /* of stacks that were never measured */
    int rows;                 /* number of rows of all stacks */
    double covered, left_out; /* the two counts of coverage, over all stacks */
};

/* Fits on the shipped runs, predicted with the constants of `results`. The table must have interval
 * rules. Release the result also after an error. */
bool families_find(const struct fit_table *table, const struct fit_result *results, int num_results,
                   int jobs, struct families *out, struct err *err);

/* Fits one set of widths on the rows of all stacks together, without the rows of the source
 * (publication) `without`; NULL: with all rows. The name of `out` is "". */
bool families_pooled(const struct fit_table *table, const char *without, int jobs,
                     struct family_widths *out, struct err *err);
void families_release(struct families *families);

/* The widths of a stack; NULL: unknown name. */
const struct family_widths *families_of(const struct families *families, const char *stack);

#endif
