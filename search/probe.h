/* search/probe.h - a short answer to a changed request: whether any plan fits, and the best one.
 *
 * A probe reports no progress, and no reasons why plans are excluded. An invalid request (clashing
 * words, a missing network) has no plan. */
#ifndef SEARCH_PROBE_H
#define SEARCH_PROBE_H

#include "search/search.h"

struct probe {
    bool fits;               /* whether some plan keeps the rules and fits */
    struct scored_plan best; /* set by probe_best when a plan fits; stages in the arena */
    /* set by probe_best when plans fit: a lower bound of all plans' step times; 0: unknown */
    double least_s;
    bool timed_out, was_interrupted;
};

struct probe probe_fits(const struct search_request *asked);
/* Finds the best plan by the request's objective with the default method. */
struct probe probe_best(const struct search_request *asked, struct arena *arena);

/* The request on another number of GPUs. `system` is overwritten and must outlast the result. */
struct search_request probe_on(const struct search_request *request, int num_gpus,
                               struct system *system);

#endif
