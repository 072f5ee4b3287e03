/* cli/search_run.h - "search --run": runs the best plan that was found. */
#ifndef CLI_SEARCH_RUN_H
#define CLI_SEARCH_RUN_H

#include "cli/setup.h"
#include "search/search.h"

/* Runs the best plan as `simsearch run` would from its plan file, which lies in -o's file, or in a
 * temporary one while it runs. Returns the exit code. */
int search_run_best(const struct options *options, const struct setup *setup,
                    const struct search_result *result, struct err *err);

#endif
