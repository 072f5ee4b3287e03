/* tests/search/searching.h - searches that must succeed, and helpers for tests of searches. */
#ifndef TESTS_SEARCH_SEARCHING_H
#define TESTS_SEARCH_SEARCHING_H

#include "search/search.h"

/* Runs a search; an error fails the test. Release the result with search_result_release. */
struct search_result search_of(const struct search_request *request);

/* Number of candidates that a rule excluded; "memory" counts as a rule. */
double exclusion_of(const struct search_result *result, const char *rule);

/* A search_request's `interrupted` that is true from the start. */
bool always(void);

#endif
