/* search/stochastic/stochastic.h - search methods that look at some of a space, by chance.
 *
 * They spend request->budget scores (see scorer.h) and draw from request->seed; the answer depends
 * on neither time nor jobs unless the search is ended early. They prove nothing: proved_optimal is
 * false and lower_bound_s what the GPUs' peak allows, which takes no search. Of the counts of a
 * result each plan that was met is one, however often it was scored: evaluated are those that fit,
 * infeasible those over memory and those that break a rule, which cost no score; bounded is 0. */
#ifndef SEARCH_STOCHASTIC_STOCHASTIC_H
#define SEARCH_STOCHASTIC_STOCHASTIC_H

#include "search/method.h"

enum { DEFAULT_BUDGET = 10000, DEFAULT_SEED = 1 };

/* Annealing and a (1+1)-ES, half the budget each. */
bool zeroth_order_run(const struct search *search, struct search_result *result, struct err *err);
/* REINFORCE. */
bool reinforce_run(const struct search *search, struct search_result *result, struct err *err);
/* Plans drawn at random, to compare with. */
bool random_run(const struct search *search, struct search_result *result, struct err *err);

#endif
