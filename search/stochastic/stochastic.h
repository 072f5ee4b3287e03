/* search/stochastic/stochastic.h - search methods that draw some plans of a space at random.
 *
 * They spend request->budget scores (see scorer.h) and draw from request->seed; the answer depends
 * on neither time nor jobs unless the search is ended early. They prove nothing: proved_optimal is
 * false, and lower_bound_s follows from the GPUs' peak alone. A result counts each plan once,
 * however often it was scored: as evaluated when it fits, as infeasible when it is over memory or
 * breaks a rule; bounded is 0. */
#ifndef SEARCH_STOCHASTIC_STOCHASTIC_H
#define SEARCH_STOCHASTIC_STOCHASTIC_H

#include "search/method.h"

enum { DEFAULT_BUDGET = 10000, DEFAULT_SEED = 1 };

#endif
