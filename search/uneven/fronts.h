/* search/uneven/fronts.h - the dynamic program: for every stage and number of layers left, the
 * suffixes that no other dominates.
 *
 * O(stages x layers x options x suffixes); a front has few (tens at 64 stages). */
#ifndef SEARCH_UNEVEN_FRONTS_H
#define SEARCH_UNEVEN_FRONTS_H

#include "search/uneven/composition.h"

struct front_entry {
    struct suffix suffix;
    int layers; /* of the suffix's first stage */
    int next;   /* the entry behind it, in the front of stage + 1 and the layers left */
};

struct front {
    const struct front_entry *at;
    int count;
};

struct fronts {
    const struct stage_table *table;
    const struct composition *composition;
    struct front *of; /* see fronts_at */
};

/* In the arena. A suffix may be left out when no division of less than `limit_s` has it; HUGE_VAL
 * keeps all. */
struct fronts fronts_new(const struct stage_table *table, const struct composition *composition,
                         double limit_s, struct arena *arena);

/* Suffixes from `stage` on that hold `layers`; stage num_stages has the empty one. */
const struct front *fronts_at(const struct fronts *fronts, int stage, int layers);

/* The least total, and a division with that total: layers[stage]. HUGE_VAL: no division fits. */
double fronts_best_s(const struct fronts *fronts, int *layers);

#endif
