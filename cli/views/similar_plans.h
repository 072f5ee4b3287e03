/* cli/views/similar_plans.h - the best plan of each kind, and the number of similar plans.
 *
 * Plans are of one kind if they have the same tp, cp, ep, pp and micro-batch, if both or neither
 * shard parameters (ZeRO-3), and if both or neither recompute everything. Chunks, sequence
 * parallelism, other ZeRO stages and selective recompute do not make another kind. */
#ifndef CLI_VIEWS_SIMILAR_PLANS_H
#define CLI_VIEWS_SIMILAR_PLANS_H

#include "search/search.h"

enum { MOST_KINDS = 64 };

struct kinds {
    int of; /* number of plans in the ranking */
    int count;
    int first[MOST_KINDS]; /* index in the ranking of the best plan of each kind, in rising order */
    int alike[MOST_KINDS]; /* other plans of the ranking that are of this kind */
};

/* The number of plans that a search should keep, so that `shown` kinds can be shown. */
int kinds_top(int shown);

/* The first `most` kinds of a ranking. */
struct kinds kinds_of(const struct search_result *result, int most);

/* A copy of the result whose ranking has only the best plan of each kind, written to `rows`. */
struct search_result kinds_result(const struct kinds *kinds, const struct search_result *result,
                                  struct scored_plan *rows);

#endif
