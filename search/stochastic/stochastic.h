/* search/stochastic/stochastic.h - search methods that draw some plans of a space at random.
 *
 * They score request->budget plans (see scorer.h) and draw from request->seed. The answer depends
 * neither on time nor on the number of jobs unless the search ends early. They prove nothing:
 * proved_optimal is false, and lower_bound_s follows from the GPUs' peak alone. A result counts
 * each plan once, even if it was scored several times: as evaluated when it fits, and as infeasible
 * when it exceeds memory or breaks a rule. `bounded` is 0. */
#ifndef SEARCH_STOCHASTIC_STOCHASTIC_H
#define SEARCH_STOCHASTIC_STOCHASTIC_H

#include "search/method.h"

enum { DEFAULT_BUDGET = 10000, DEFAULT_SEED = 1 };

#endif
