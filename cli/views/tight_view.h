/* cli/views/tight_view.h - shows a plan that is predicted to fit but whose risk of running out of
 * memory is too high. */
#ifndef CLI_VIEWS_TIGHT_VIEW_H
#define CLI_VIEWS_TIGHT_VIEW_H

#include "cli/input/setup.h"
#include "search/search.h"

void show_tight(const struct scored_plan *tight, const struct scored_plan *best);
void add_tight_json(json_t *object, const struct setup *setup, const struct scored_plan *tight,
                    const struct scored_plan *best);

#endif
