/* search/method.h - the input that search_run passes to a method, and functions that methods
 * share. */
#ifndef SEARCH_METHOD_H
#define SEARCH_METHOD_H

#include "search/result.h"
#include "search/walk.h"

struct search {
    const struct search_request *request;
    const struct system *system; /* a plan's memory is limited by the memory of its GPUs */
    const struct space *space;
    double start_s;
};

/* Owns everything that a struct search points to, made from a caller's request. */
struct prepared {
    struct search_request request;
    struct system system;
    struct space space;
    struct search search;
};
bool search_prepare(const struct search_request *asked, struct arena *arena, struct prepared *out,
                    struct err *err);

/* Copies a walk's counts of plans (evaluated, bounded, and excluded by each rule) to the result. */
void search_fill_counts(const struct tally *tally, struct search_result *result);
/* Copies the plans of the frontier to the result, best first, each with its full prediction. */
void search_fill_top(const struct search *search, struct frontier *frontier,
                     struct search_result *result);
/* A lower bound of every plan's step time that assumes the GPUs' peak. */
double search_peak_floor_s(const struct search *search);
/* A plan's prediction. Its stages are in the arena. */
struct scored_plan search_predict(const struct search *search, const struct plan *plan,
                                  struct arena *arena);

/* Walks the whole space and keeps the best `top` plans; the frontier is in the arena. */
struct tally search_best(const struct search *search, int top, struct arena *arena,
                         struct frontier *best);

/* The same as search_best, but by branch and bound; `best` is sorted. *least_s is a lower bound of
 * all step times of the space. */
struct tally bnb_best(const struct search *search, struct arena *arena, struct frontier *best,
                      double *least_s);

/* The methods, which search_run calls with request->evaluators set. */
bool bnb_run(const struct search *search, struct search_result *result, struct err *err);
bool exhaustive_run(const struct search *search, struct search_result *result, struct err *err);

/* Searches even plans by branch and bound, then uneven ones (search/uneven). Method dp always uses
 * it, method bnb only with --uneven or --recompute-mixes. */
bool uneven_run(const struct search *search, struct search_result *result, struct err *err);
bool dp_run(const struct search *search, struct search_result *result, struct err *err);
/* The same as uneven_run, but with an integer program instead of a dynamic program
 * (search/milp/milp.h). */
bool milp_run(const struct search *search, struct search_result *result, struct err *err);

/* A method that draws plans at random (search/stochastic/stochastic.h): half the budget goes to
 * simulated annealing, half to a (1+1) evolution strategy. */
bool zeroth_order_run(const struct search *search, struct search_result *result, struct err *err);
/* A policy trained by REINFORCE. */
bool reinforce_run(const struct search *search, struct search_result *result, struct err *err);
/* Plans drawn uniformly at random, as a baseline. */
bool random_run(const struct search *search, struct search_result *result, struct err *err);

/* When no plan fits into memory: sets result->nearest, the plan that exceeds memory the least, and
 * result->fewest_gpus, the fewest GPUs on which a plan fits. */
void search_fill_nearest(const struct search *search, const struct tally *tally,
                         struct search_result *result);

#endif
