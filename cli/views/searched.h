/* cli/views/searched.h - a summary of a search in one line. */
#ifndef CLI_VIEWS_SEARCHED_H
#define CLI_VIEWS_SEARCHED_H

#include "base/text.h"
#include "search/search.h"

/* Adds a count. From 10 000 on thousands are separated, as in "36 144"; from 1e15 on it is written
 * as "4.75e+28". */
void add_count(struct text *out, double count);

/* Shows the number of candidates, the time, and how many were evaluated, bounded or infeasible. */
void show_searched(const struct search_result *result);

/* Shows whether the best plan is proved optimal, and in which space. */
void show_proof(const struct search_result *result);

#endif
