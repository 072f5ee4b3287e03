/* cli/views/relax_view.h - when no plan is feasible, shows the changes that would admit one. */
#ifndef CLI_VIEWS_RELAX_VIEW_H
#define CLI_VIEWS_RELAX_VIEW_H

#include "cli/input/setup.h"
#include "search/questions/relax.h"

/* Searches for relaxations, which are changes of the request that admit a plan, when a complete
 * search found no plan. Otherwise `out` is empty. Release it with relaxations_release. */
void relax_find(const struct search_request *request, const struct search_result *result,
                struct relaxations *out);

/* Adds the end of the sentence on stderr: "; each of these changes would give a plan: batch 1500,
 * 864 GPUs". */
void add_relaxations_words(const struct relaxations *relaxations, struct text *out);

void show_relaxations(const struct relaxations *relaxations);

/* The array under "relaxations". */
json_t *relaxations_json(const struct setup *setup, const struct relaxations *relaxations);

#endif
