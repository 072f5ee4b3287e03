/* search/uneven/composition.h - the stages of a pipeline added up, from the last to the first.
 *
 * A suffix is all stages from one to the last. A few keys describe it, and each key can only make
 * the whole longer. So a suffix is not needed when another one with the same layers has no larger
 * key: dominance is exact, and a dynamic program over (stage, layers) with the remaining suffixes
 * finds the least total. */
#ifndef SEARCH_UNEVEN_COMPOSITION_H
#define SEARCH_UNEVEN_COMPOSITION_H

#include "search/uneven/stages.h"

enum { NUM_KEYS = 4 };

struct suffix {
    double key[NUM_KEYS]; /* { 0 } is the empty suffix */
};

struct composition {
    const char *name;
    const char *source;
    /* `behind` is the suffix of stage + 1. */
    struct suffix (*prepend)(const struct stage_table *table, int stage,
                             const struct stage_option *option, const struct suffix *behind);
    /* Seconds of a step for the suffix that begins at stage 0; for a shorter one, at most the
     * seconds of any whole that ends in it. */
    double (*total_s)(const struct stage_table *table, const struct suffix *whole);
};

/* sum + (microbatches - 1) x longest: exact where stages are equal, neither a bound nor exact
 * elsewhere. Alpa (Zheng et al. 2022, section 5.2) and most planners since. */
extern const struct composition surrogate;

/* Never above the step time that evaluate_step_s has for the same stages in 1F1B. A stage does a
 * warm-up of w forwards, w the microbatches in flight, then forward and backward in turn, then w
 * backwards. With R the round trip of a microbatch through the stages behind it:
 * - its first backward comes after w forwards and after F + R;
 * - of its n further rounds each takes F + B, and w in a row take a round trip F + B + R;
 * - its last w backwards take w B, and the last forward's gradient comes back after R.
 * Stages before it add their forward and backward of one microbatch. Then every stage's own
 * reduction after its own end, and the longest optimizer. */
extern const struct composition lower_bound;

#endif
