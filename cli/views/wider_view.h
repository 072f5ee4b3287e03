/* cli/views/wider_view.h - suggests an option that searches a wider space with a faster plan. */
#ifndef CLI_VIEWS_WIDER_VIEW_H
#define CLI_VIEWS_WIDER_VIEW_H

#include "cli/input/setup.h"
#include "search/questions/wider.h"

struct wider_view {
    struct wider at[MOST_WIDER];
    int count;
};

/* Finds options that search a wider space with a faster plan. The result is empty unless the
 * default method proved the fastest plan of its space. */
struct wider_view wider_find(struct setup *setup, const struct search_request *request,
                             const struct search_result *result);

void show_wider(const struct wider_view *view);
/* Adds "wider": [ { "option", "gain", "layout", "step_s" } ]. */
void add_wider_json(json_t *object, const struct wider_view *view);

#endif
