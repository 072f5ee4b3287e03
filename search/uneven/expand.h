/* search/uneven/expand.h - from the bound's best division to the best one as it is timed.
 *
 * Beginnings of divisions are taken by increasing bound, that of the best completion in the fronts,
 * and split by the next stage's layers; whole divisions are timed. What was not timed when the
 * least bound left is no less than the fastest is no faster: the fastest is proved.
 *
 * Bounds and times are sums in different orders, so `proof_tolerance` is the least difference that
 * is one: divisions that differ by less tie, and of those that were timed the first stays. Nothing
 * depends on threads, so which are is a function of the table and the limit alone. */
#ifndef SEARCH_UNEVEN_EXPAND_H
#define SEARCH_UNEVEN_EXPAND_H

#include "search/uneven/fronts.h"

static const double proof_tolerance = 1e-9;

struct expansion_request {
    const struct stage_table *table;
    double limit_s;    /* of no interest: what takes as long; HUGE_VAL: all is */
    double most_timed; /* divisions; more are left open */
    /* `recomputed`, [stage] too: NULL for those of the table. */
    double (*time_s)(void *context, const int *layers, const int *recomputed);
    bool (*must_stop)(void *context); /* NULL: never */
    void *context;
};

struct expansion {
    bool found;            /* one of less than limit_s */
    const int *layers;     /* [stage], in the arena */
    const int *recomputed; /* [stage]; NULL: those of the table */
    double step_s;
    double timed;
    /* No division left is faster than this; at least step_s, or limit_s, less the tolerance where
     * all was expanded. */
    double open_s;
    bool is_proved;
};
struct expansion expand(const struct expansion_request *request, struct arena *arena);

#endif
