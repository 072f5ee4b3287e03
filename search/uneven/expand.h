/* search/uneven/expand.h - finds the division of layers over stages with the shortest timed step,
 * by bounds.
 *
 * A prefix gives the layers of the first stages. Its bound is the bound of its best completion in
 * the fronts (uneven/fronts.h). Prefixes are taken by increasing bound, and each is extended by
 * every number of layers of the next stage; complete divisions are timed. When the least bound of
 * the remaining prefixes reaches the fastest time, no remaining division is faster, so the fastest
 * is proved.
 *
 * If many divisions have a bound below the fastest time, the order of passes may make all of them
 * slower. Then prefixes are also bounded by least_s, which takes the order of passes into account.
 * For each later stage it gets the fewest layers that the stage can have: what is left when all
 * other later stages have their most.
 *
 * Bounds and times add up in different orders, so differences below `proof_tolerance` are ties; of
 * a tie, the division timed first is kept. The result does not depend on threads: the table and the
 * limit alone determine which divisions are timed. */
#ifndef SEARCH_UNEVEN_EXPAND_H
#define SEARCH_UNEVEN_EXPAND_H

#include "search/uneven/fronts.h"

static const double proof_tolerance = 1e-9;

struct expansion_request {
    const struct stage_table *table;
    double limit_s; /* ignore divisions that take this long or longer; HUGE_VAL: ignore none */
    /* maximum number of divisions to time, and maximum number of calls of least_s */
    double most_timed;
    /* Times a division. `recomputed` is indexed by stage; NULL: as in the table. */
    double (*time_s)(void *context, const int *layers, const int *recomputed);
    bool (*must_stop)(void *context); /* NULL: never */
    void *context;
    /* A lower bound of every division in which no stage has fewer layers than layers[stage]. The
     * sum of layers[] may be less than the model's layers. NULL: there is no such bound. */
    double (*least_s)(void *context, const int *layers);
};

struct expansion {
    bool found;            /* whether a division that takes less than limit_s was found */
    const int *layers;     /* [stage], in the arena */
    const int *recomputed; /* [stage]; NULL: as in the table */
    double step_s;
    double timed;
    /* A lower bound of all remaining divisions. When all divisions were expanded it is at least
     * step_s, or limit_s, minus the tolerance. */
    double open_s;
    bool is_proved;
};
struct expansion expand(const struct expansion_request *request, struct arena *arena);

#endif
