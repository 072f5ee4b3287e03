/* search/frontier.h - the best K of the plans that are offered one after another, in any order.
 *
 * Plans are compared by objective and, when equal, by canonical layout as text; no two plans of a
 * space are equal in both, so the best K do not depend on the workers' timing. */
#ifndef SEARCH_FRONTIER_H
#define SEARCH_FRONTIER_H

#include "base/arena.h"
#include "search/request.h"

struct ranked_plan {
    struct plan plan;
    double step_s;
    double peak_memory_bytes;
};

/* Whether a ranks before b. OBJECTIVE_COST compares by time; search_run sorts the result by cost.
 * With OBJECTIVE_MEMORY the least memory comes first, and the faster of two with equal memory. */
bool ranked_before(int objective, const struct ranked_plan *a, const struct ranked_plan *b);

struct frontier {
    int objective;
    int capacity;
    int count;
    struct ranked_plan *at; /* a heap with the worst plan at 0 until frontier_sort */
};

struct frontier frontier_new(int objective, int capacity, struct arena *arena);
void frontier_offer(struct frontier *frontier, const struct ranked_plan *plan);
double frontier_fastest_s(const struct frontier *frontier); /* Step time of the fastest plan;
                                                               HUGE_VAL: the frontier is empty. */
/* Sorts best first. No plan may be offered afterwards. */
void frontier_sort(struct frontier *frontier);

#endif
