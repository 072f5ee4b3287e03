/* cli/runnable.h - searches among the plans that a framework can run. */
#ifndef CLI_RUNNABLE_H
#define CLI_RUNNABLE_H

#include "cli/input/setup.h"
#include "interchange/target.h"
#include "search/search.h"

/* Restricts the request to plans that the framework can run, and sets its method of context
 * parallelism. */
void runnable_ask(const struct target *target, struct search_request *request, struct arena *arena);

/* Finds the best `wanted` plans that the framework can run. It searches an ordered list of the best
 * plans, of which the framework can run some, and lengthens the list until there are enough or it
 * contains the whole space. If the framework can run none of the fastest plans: ERR_INFEASIBLE,
 * where = --for. */
bool runnable_search(const struct target *target, const struct setup *setup,
                     const struct search_request *request, int wanted, struct search_result *result,
                     struct err *err);

#endif
