/* search/frontier.h - the best K plans of a stream, whatever its order.
 *
 * Plans are compared by objective and, when equal, by canonical layout as text; no two plans of a
 * space are equal in both, so the best K do not depend on which worker found them when. */
#ifndef SEARCH_FRONTIER_H
#define SEARCH_FRONTIER_H

#include "base/arena.h"
#include "search/request.h"

struct ranked_plan {
    struct plan plan;
    double step_s;
    double peak_memory_bytes;
};

/* Whether a ranks before b. Cost ranks as time does: search_run orders the best anew. With
 * OBJECTIVE_MEMORY the least memory comes first, and the faster of two with equal memory. */
bool ranked_before(int objective, const struct ranked_plan *a, const struct ranked_plan *b);

struct frontier {
    int objective;
    int capacity;
    int count;
    struct ranked_plan *at; /* a heap with the worst at 0; frontier_sort sorts it */
};

struct frontier frontier_new(int objective, int capacity, struct arena *arena);
void frontier_offer(struct frontier *frontier, const struct ranked_plan *plan);
double frontier_fastest_s(const struct frontier *frontier); /* HUGE_VAL: it is empty */
void frontier_sort(struct frontier *frontier); /* best first; no further offers afterwards */

#endif
