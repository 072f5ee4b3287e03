/* search/questions/pareto.h - plans that no other plan dominates.
 *
 * Plans are compared by the number of GPUs, the step time and the memory of the heaviest stage;
 * less of each is better. Days are proportional to the step time and dollars to GPUs x step time,
 * so a plan that is no worse in these three also costs no more. */
#ifndef SEARCH_QUESTIONS_PARETO_H
#define SEARCH_QUESTIONS_PARETO_H

#include "search/search.h"

enum { PARETO_KEYS = 3 };

struct pareto_point {
    double key[PARETO_KEYS]; /* per key, less is better */
};

/* Whether a is no worse than b in any key, and better in one. */
bool pareto_dominates(const struct pareto_point *a, const struct pareto_point *b);

/* Sets is_on_front[i] to whether no point dominates point i, in n log n steps (Kung, Luccio and
 * Preparata 1975, for three keys). Equal points get the same value. */
void pareto_mark(const struct pareto_point *points, size_t count, bool *is_on_front);

struct pareto_plan {
    int num_gpus;
    struct scored_plan scored;
};

struct pareto_result {
    const char *space_name; /* name of the space on the system's own number of GPUs */
    struct pareto_plan *at; /* sorted by number of GPUs, then by step time */
    int count;
    int num_on_front; /* number of plans on the front before those with a small saving of memory
                         were dropped */
    int *counts;      /* numbers of GPUs searched */
    int num_counts;
    /* Sums over all numbers of GPUs. bounded: plans skipped because a bound proves them
     * dominated. */
    double candidates, evaluated, bounded;
    bool timed_out, was_interrupted;
    double elapsed_s;
    struct arena arena;
};

/* The front over the usual numbers of GPUs up to the system's (counts_usual). The rest of the
 * request is that of search_run. Of plans with equal GPUs, time and memory, the first by layout is
 * kept. On one number of GPUs a slower plan is dropped unless it saves `least_saving_bytes` over
 * each faster plan kept. False only when the request is wrong. Release the result in either
 * case. */
bool search_pareto(const struct search_request *request, double least_saving_bytes,
                   struct pareto_result *result, struct err *err);
void pareto_result_release(struct pareto_result *result);

#endif
