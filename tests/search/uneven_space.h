/* tests/search/uneven_space.h - the space of uneven stages with separate recompute per stage, as
 * nested loops, for comparison with search/. */
#ifndef TESTS_SEARCH_UNEVEN_SPACE_H
#define TESTS_SEARCH_UNEVEN_SPACE_H

#include "search/search.h"

enum { MOST_LISTED_LAYERS = 9 };

/* Results over all plans of the request, evaluated one by one. Of the layout words in the request,
 * only `fix` is read, and it may have only tp, pp and mb. */
struct uneven_space {
    double plans, fastest_s; /* HUGE_VAL: none fits */
};
struct uneven_space uneven_space_list(const struct search_request *request);

/* Results over all divisions of one plan's layers that the search examines: each stage has any
 * number of layers, which are dealt to its chunks one by one. */
struct uneven_space uneven_space_of(const struct search_request *request, const struct plan *plan);

#endif
