/* tests/search/uneven_space.h - the space of uneven stages, and of a recompute of each stage's own,
 * as nested loops, to hold search/ against. */
#ifndef TESTS_SEARCH_UNEVEN_SPACE_H
#define TESTS_SEARCH_UNEVEN_SPACE_H

#include "search/search.h"

enum { MOST_LISTED_LAYERS = 9 };

/* All plans that the request asks about, one by one. */
struct uneven_space {
    double plans, fastest_s; /* HUGE_VAL: none fits */
};
struct uneven_space uneven_space_list(const struct search_request *request);

#endif
