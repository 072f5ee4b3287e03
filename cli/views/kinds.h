/* cli/views/kinds.h - the best plan of each kind, and how many are like it.
 *
 * Plans are of one kind where they have the same tp, cp, ep, pp and micro-batch, and both or
 * neither shard parameters (ZeRO-3) and recompute everything. Chunks, sequence parallelism, other
 * ZeRO stages and selective recompute make plans that are alike. */
#ifndef CLI_VIEWS_KINDS_H
#define CLI_VIEWS_KINDS_H

#include "search/search.h"

enum { MOST_KINDS = 64 };

struct kinds {
    int of; /* plans of the ranking */
    int count;
    int first[MOST_KINDS]; /* index of the kind's best in the ranking, rising */
    int alike[MOST_KINDS]; /* other plans of the ranking that are of this kind */
};

/* How many plans a search should keep, so that as many kinds may be shown. */
int kinds_top(int shown);

/* The first `most` kinds of a ranking. */
struct kinds kinds_of(const struct search_result *result, int most);

/* A copy of the result whose ranking has only the best plan of each kind, written to `rows`. */
struct search_result kinds_result(const struct kinds *kinds, const struct search_result *result,
                                  struct scored_plan *rows);

#endif
