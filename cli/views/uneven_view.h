/* cli/views/uneven_view.h - shows the gain of uneven stages over even stages. */
#ifndef CLI_VIEWS_UNEVEN_VIEW_H
#define CLI_VIEWS_UNEVEN_VIEW_H

#include "cli/input/setup.h"
#include "search/search.h"

/* Prints a line when uneven plans were searched. */
void show_even_best(const struct setup *setup, const struct search_result *result);

/* Adds "even_best": the best plan with even stages (null when none fits), and the fraction of its
 * time that the overall best plan saves, by the recurrence and by the event engine. */
void add_even_best_json(json_t *object, const struct setup *setup,
                        const struct search_result *result);

#endif
