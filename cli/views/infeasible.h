/* cli/views/infeasible.h - the answer of a search that found no plan. */
#ifndef CLI_VIEWS_INFEASIBLE_H
#define CLI_VIEWS_INFEASIBLE_H

#include "cli/views/relax_view.h"

/* Shows why plans are excluded, and the changes of the request that would admit a plan. */
void show_infeasible(const struct options *options, const struct setup *setup,
                     const struct search_result *result, const struct relaxations *relaxations);

/* Adds "feasible": false, the reasons, and an empty "nearest" (the plan that lacks the least
 * memory) if the document has none. `err` has the sentence for stderr. `result` is NULL if no
 * search was made. */
void add_infeasible_json(json_t *object, const struct search_result *result, const struct err *err);

/* Adds the reasons in one sentence. */
void add_infeasible_sentence(const struct setup *setup, const struct search_result *result,
                             struct text *out);

#endif
