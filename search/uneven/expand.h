/* search/uneven/expand.h - from the bound's best division to the best one as it is timed.
 *
 * Beginnings of divisions are taken by increasing bound, which is that of the best completion in
 * the fronts, and split by the next stage's layers; whole divisions are timed. When the least open
 * bound is no less than the fastest time, no division that is left is faster: the fastest is
 * proved.
 *
 * Bounds and times add up in different orders, so differences below `proof_tolerance` are ties; the
 * first timed division of a tie stays. Nothing depends on threads: which divisions are timed is a
 * function of the table and the limit alone. */
#ifndef SEARCH_UNEVEN_EXPAND_H
#define SEARCH_UNEVEN_EXPAND_H

#include "search/uneven/fronts.h"

static const double proof_tolerance = 1e-9;

struct expansion_request {
    const struct stage_table *table;
    double
        limit_s; /* divisions that take as long are of no interest; HUGE_VAL: all are of interest */
    double most_timed; /* divisions; more are left open */
    /* `recomputed`, by stage too; NULL: the table's. */
    double (*time_s)(void *context, const int *layers, const int *recomputed);
    bool (*must_stop)(void *context); /* NULL: never */
    void *context;
};

struct expansion {
    bool found;            /* a division that takes less than limit_s */
    const int *layers;     /* [stage], in the arena */
    const int *recomputed; /* [stage]; NULL: the table's */
    double step_s;
    double timed;
    /* No division left is faster than this; at least step_s, or limit_s, less the tolerance where
     * all was expanded. */
    double open_s;
    bool is_proved;
};
struct expansion expand(const struct expansion_request *request, struct arena *arena);

#endif
