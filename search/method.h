/* search/method.h - a method's input from search_run, and functions that methods share. */
#ifndef SEARCH_METHOD_H
#define SEARCH_METHOD_H

#include "search/result.h"
#include "search/walk.h"

struct search {
    const struct search_request *request;
    const struct system *system; /* its GPU memory is the limit */
    const struct space *space;
    double start_s;
};

/* Everything that a search points to, made from a caller's request. */
struct prepared {
    struct search_request request;
    struct system system;
    struct space space;
    struct search search;
};
bool search_prepare(const struct search_request *asked, struct arena *arena, struct prepared *out,
                    struct err *err);

/* Fills counts, exclusions and bound from a walk over the whole space. */
void search_fill_counts(const struct tally *tally, struct search_result *result);
/* Fills the plans, best first, each predicted in full. */
void search_fill_top(const struct search *search, struct frontier *frontier,
                     struct search_result *result);
/* A lower bound of every plan's step time, by the GPUs' peak alone. */
double search_peak_floor_s(const struct search *search);
/* A plan's prediction, its stages in the arena. */
struct scored_plan search_predict(const struct search *search, const struct plan *plan,
                                  struct arena *arena);

/* A walk that keeps the best `top`; the frontier is in the arena. */
struct tally search_best(const struct search *search, int top, struct arena *arena,
                         struct frontier *best);

/* The same by branch and bound, with the frontier sorted. *least_s is a lower bound over the
 * space. */
struct tally bnb_best(const struct search *search, struct arena *arena, struct frontier *best,
                      double *least_s);

/* search_run runs methods, with request->evaluators set. */
bool bnb_run(const struct search *search, struct search_result *result, struct err *err);
bool exhaustive_run(const struct search *search, struct search_result *result, struct err *err);

/* Even plans by branch and bound, then uneven ones (search/uneven): bnb's answer with --uneven or
 * --recompute-mixes, and always dp's. */
bool uneven_run(const struct search *search, struct search_result *result, struct err *err);
bool dp_run(const struct search *search, struct search_result *result, struct err *err);
/* The same by an integer program instead of a dynamic program (search/milp/milp.h). */
bool milp_run(const struct search *search, struct search_result *result, struct err *err);

/* Methods that draw plans at random (search/stochastic/stochastic.h): annealing and a (1+1)-ES,
 * half the budget each. */
bool zeroth_order_run(const struct search *search, struct search_result *result, struct err *err);
/* A policy trained by REINFORCE. */
bool reinforce_run(const struct search *search, struct search_result *result, struct err *err);
/* Plans drawn at random, to compare with. */
bool random_run(const struct search *search, struct search_result *result, struct err *err);

/* When nothing fits (search/nearest.c): the nearest plan and the fewest GPUs. */
void search_fill_nearest(const struct search *search, const struct tally *tally,
                         struct search_result *result);

#endif
