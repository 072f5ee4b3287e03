/* cli/search_run.h - "search --run": runs the best plan that was found. */
#ifndef CLI_SEARCH_RUN_H
#define CLI_SEARCH_RUN_H

#include "cli/input/setup.h"
#include "search/search.h"

/* Runs the best plan as `simsearch run` would from a plan file: that of -o, or a temporary one.
 * Returns the exit code. */
int search_run_best(const struct options *options, const struct setup *setup,
                    const struct search_result *result, struct err *err);

#endif
