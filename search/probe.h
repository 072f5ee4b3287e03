/* search/probe.h - a changed request, answered in short: does anything fit, and what is best.
 *
 * It reports no progress and no reasons why plans are out. A request that cannot be used (words
 * that clash, a network that is not there) has no plan. */
#ifndef SEARCH_PROBE_H
#define SEARCH_PROBE_H

#include "search/search.h"

struct probe {
    bool fits;               /* some plan keeps the rules and fits */
    struct scored_plan best; /* of probe_best, when one fits; stages in the arena */
    bool timed_out, was_interrupted;
};

struct probe probe_fits(const struct search_request *asked);
/* Finds the best by the request's objective with the default method. */
struct probe probe_best(const struct search_request *asked, struct arena *arena);

/* The request on another count, in `system`, which must outlast it. */
struct search_request probe_on(const struct search_request *request, int num_gpus,
                               struct system *system);

#endif
