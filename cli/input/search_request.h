/* cli/input/search_request.h - the search that a command line asks for. */
#ifndef CLI_INPUT_SEARCH_REQUEST_H
#define CLI_INPUT_SEARCH_REQUEST_H

#include "cli/input/setup.h"
#include "search/search.h"

/* Borrows from the setup, whose arena holds its words. The options' words are put in lower case. */
struct search_request search_request_of(struct options *options, struct setup *setup);

int search_request_top(const struct options *options); /* plans to list */

#endif
