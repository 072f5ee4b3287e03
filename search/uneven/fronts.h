/* search/uneven/fronts.h - the dynamic program: for each stage and number of remaining layers it
 * finds the suffixes that no other suffix dominates. One suffix dominates another if it is no
 * larger in any key, the numbers that describe a suffix's cost (uneven/composition.h). A suffix is
 * the stages from some stage to the last, with their layers.
 *
 * A front is the set of these suffixes for one stage and one number of layers. The program takes
 * O(stages x layers x options x suffixes) time; a front has few suffixes (tens at 64 stages). */
#ifndef SEARCH_UNEVEN_FRONTS_H
#define SEARCH_UNEVEN_FRONTS_H

#include "search/uneven/composition.h"

struct front_entry {
    struct suffix suffix;
    int layers; /* layers of the suffix's first stage */
    int next; /* the rest of the suffix: index in the front of stage + 1 and the remaining layers */
};

struct front {
    const struct front_entry *at;
    int count;
};

struct fronts {
    const struct stage_table *table;
    const struct composition *composition;
    struct front *of; /* indexed by fronts_at */
};

/* Computes all fronts, in the arena. Suffixes that occur in no division faster than `limit_s` may
 * be dropped; HUGE_VAL keeps all. */
struct fronts fronts_new(const struct stage_table *table, const struct composition *composition,
                         double limit_s, struct arena *arena);

/* The suffixes from `stage` on that hold `layers`; stage num_stages has the empty suffix. */
const struct front *fronts_at(const struct fronts *fronts, int stage, int layers);

/* The least total, and a division with that total: layers[stage]. HUGE_VAL: no division fits. */
double fronts_best_s(const struct fronts *fronts, int *layers);

#endif
