/* tests/search/searching.h - searches that must succeed, and what tests ask of all of them. */
#ifndef TESTS_SEARCH_SEARCHING_H
#define TESTS_SEARCH_SEARCHING_H

#include "search/search.h"

/* search_result_release; a search that ends with an error fails the test. */
struct search_result search_of(const struct search_request *request);

/* How many candidates the rule excluded; "memory" is one. */
double exclusion_of(const struct search_result *result, const char *rule);

/* A search_request's `interrupted` that is true from the start. */
bool always(void);

#endif
