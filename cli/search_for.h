/* cli/search_for.h - `search --for TARGET`: only plans that a framework can run. */
#ifndef CLI_SEARCH_FOR_H
#define CLI_SEARCH_FOR_H

#include "cli/input/options.h"
#include "cli/input/setup.h"
#include "search/search.h"

/* Selects the framework's stack unless the user named another. */
bool begin_for_target(struct options *options, struct err *err);

/* Restricts the request to plans that the framework of --for can run, and adds its rules to the
 * assumptions. Does nothing without --for. */
void ask_for_target(const struct options *options, struct setup *setup,
                    struct search_request *request);

/* Finds the best plans that the framework of --for can run. */
bool search_runnable(const struct options *options, const struct setup *setup,
                     const struct search_request *request, struct search_result *result,
                     struct err *err);

#endif
