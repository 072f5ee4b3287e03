/* cli/uneven_view.h - how much faster uneven stages are than even ones. */
#ifndef CLI_UNEVEN_VIEW_H
#define CLI_UNEVEN_VIEW_H

#include "cli/setup.h"
#include "search/search.h"

/* A line beside the answer where uneven plans were searched; nothing where not. */
void show_even_best(const struct setup *setup, const struct search_result *result);

/* "even_best": the best plan with even stages, null when none fits, and by which share of its time
 * the best of all is faster, by the recurrence and by the event engine. */
void add_even_best_json(json_t *object, const struct setup *setup,
                        const struct search_result *result);

#endif
