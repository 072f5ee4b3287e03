/* cli/ranking.h - the answer of a search, for people. */
#ifndef CLI_RANKING_H
#define CLI_RANKING_H

#include "cli/setup.h"
#include "search/search.h"

/* A layout that was asked to be compared, NULL in `rank` when none was. */
struct comparison {
    const struct rank_result *rank;
    const char *reason; /* why it is not valid */
};

void show_ranking(const struct options *options, const struct setup *setup,
                  const struct search_result *result, const struct comparison *comparison);

/* What kept every plan out, and what would let one in. */
void show_infeasible(const struct options *options, const struct setup *setup,
                     const struct search_result *result);

/* The same in one sentence. */
void add_infeasible_sentence(const struct setup *setup, const struct search_result *result,
                             struct text *out);

#endif
