/* cli/runnable.h - a search among the plans that a framework can run. */
#ifndef CLI_RUNNABLE_H
#define CLI_RUNNABLE_H

#include "cli/input/setup.h"
#include "interchange/target.h"
#include "search/search.h"

/* Restricts the request to what the framework can run, and sets its method of context parallelism.
 */
void runnable_ask(const struct target *target, struct search_request *request, struct arena *arena);

/* The best `wanted` plans that the framework can run. The list is exact and in order, so that its
 * first runnable plan is the best of all; it grows until there are enough, or it holds the whole
 * space. ERR_INFEASIBLE where = --for when it can run none of the fastest. */
bool runnable_search(const struct target *target, const struct setup *setup,
                     const struct search_request *request, int wanted, struct search_result *result,
                     struct err *err);

#endif
