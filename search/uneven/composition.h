/* search/uneven/composition.h - how the costs of pipeline stages combine, from the last stage to
 * the first.
 *
 * A suffix is the stages from some stage to the last, with their layers. A few numbers, its keys,
 * describe its cost, and a larger key can only make the whole step longer. So a suffix is dropped
 * when another suffix with the same layers is no larger in any key. Dropping loses no optimum: a
 * dynamic program over (stage, layers) with the remaining suffixes finds the least total. */
#ifndef SEARCH_UNEVEN_COMPOSITION_H
#define SEARCH_UNEVEN_COMPOSITION_H

#include "search/uneven/stages.h"

enum { NUM_KEYS = 4 };

struct suffix {
    double key[NUM_KEYS]; /* { 0 } is the empty suffix */
};

/* The least time that the stages before a suffix add to a step, in two parts. */
struct ahead {
    double forward_s; /* time until the first microbatch reaches the suffix */
    /* forward_s, plus the time from when a gradient leaves the suffix until it has passed the first
     * stage */
    double both_s;
};

struct composition {
    const char *name;
    const char *source;
    /* Adds a stage before a suffix; `behind` is the suffix that begins at stage + 1. */
    struct suffix (*prepend)(const struct stage_table *table, int stage,
                             const struct stage_option *option, const struct suffix *behind);
    /* Seconds of a step for the suffix that begins at stage 0; for a shorter suffix, a lower bound
     * for every whole pipeline that ends in this suffix. */
    double (*total_s)(const struct stage_table *table, const struct suffix *whole);
    /* A lower bound of total_s for every whole pipeline that ends in the suffix and whose earlier
     * stages add at least `ahead`. It needs only this sum, not the earlier stages themselves. */
    double (*least_s)(const struct stage_table *table, const struct ahead *ahead,
                      const struct suffix *suffix);
};

/* The least times of `before`, with `stage` as one more stage after its stages. */
struct ahead ahead_with(const struct stage_table *table, const struct ahead *before, int stage,
                        const struct stage_option *option);

/* The sum of all stages' times + (microbatches - 1) x the longest of them. This is exact for equal
 * stages, and otherwise neither exact nor a bound. Used by Alpa (Zheng et al. 2022, section 5.2)
 * and most planners since. */
extern const struct composition surrogate;

/* A lower bound of evaluate_step_s for the same stages in 1F1B. With w microbatches in flight, a
 * stage runs w warm-up forwards, then alternates forward (F) and backward (B), then runs w
 * backwards. Let R be the round trip of a microbatch through the later stages:
 * - its first backward comes after w forwards and after F + R;
 * - each of its n further rounds takes F + B, and any w of them in a row take at least a round trip
 * F + B + R;
 * - its last w backwards take w B, and the last forward's gradient comes back after R.
 *
 * Earlier stages add their forward and backward of one microbatch. Each stage's reduction follows
 * its own last backward, and the longest optimizer ends the step. */
extern const struct composition lower_bound;

/* A lower bound for any order of the passes, so for every schedule, as in sim/engine/bound.c. A
 * stage begins when the first microbatch has passed the first chunks of the stages before it; it
 * runs all its passes; then the last gradient goes back through these chunks. Weight gradients that
 * are computed separately may run while that gradient goes back. If no stage waits for the others'
 * gradient norm (table->validates), a stage needs only the time of its own passes, reduction and
 * update. */
extern const struct composition any_order_bound;

/* The bound that holds for the table's schedule. */
const struct composition *table_bound(const struct stage_table *table);

#endif
