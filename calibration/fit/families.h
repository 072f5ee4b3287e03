/* calibration/fit/families.h - the interval widths of all shipped stacks, and their coverage.
 *
 * calibration/fit/widths.h fits them on held-out shipped runs of stacks and GPUs that were
 * measured; a stack without such rows has the widths of all. Coverage is counted twice: by these
 * widths, and by widths refitted without the row's fold, of five. */
#ifndef CALIBRATION_FIT_FAMILIES_H
#define CALIBRATION_FIT_FAMILIES_H

#include "calibration/fit/widths.h"
#include "sim/engine/tier.h"

struct families {
    struct arena arena;
    struct family_widths *at; /* shipped stacks, by name; without those that have neither an error
                                 nor rows, as they use their profile's */
    int count;
    double shift[NUM_TIERS];  /* half widths of calibration/left_out.json; 0 of what was measured */
    int rows;                 /* of all */
    double covered, left_out; /* of all */
};

/* Fits on the shipped runs, predicted with the constants of `results`. The table must have interval
 * rules. Release in either case. */
bool families_find(const struct fit_table *table, const struct fit_result *results, int num_results,
                   int jobs, struct families *out, struct err *err);

/* What all families together have, by rows of all sources but one; `out`'s stack is "". */
bool families_pooled(const struct fit_table *table, const char *without, int jobs,
                     struct family_widths *out, struct err *err);
void families_release(struct families *families);

/* The widths of a stack; NULL: unknown name. */
const struct family_widths *families_of(const struct families *families, const char *stack);

#endif
