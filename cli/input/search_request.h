/* cli/input/search_request.h - the search request of a command line. */
#ifndef CLI_INPUT_SEARCH_REQUEST_H
#define CLI_INPUT_SEARCH_REQUEST_H

#include "cli/input/setup.h"
#include "search/search.h"

/* The highest accepted risk of running out of memory when --oom-risk is not given. */
static const double default_oom_risk = 0.05;

/* The request borrows from the setup, whose arena contains its words. The options' words are
 * changed to lower case. */
struct search_request search_request_of(struct options *options, struct setup *setup);

int search_request_top(const struct options *options); /* number of plans to list */

#endif
