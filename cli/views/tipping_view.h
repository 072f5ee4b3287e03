/* cli/views/tipping_view.h - the smallest error in one class of cost with which a plan of another
 * kind (other degrees or another micro-batch) would be the best. */
#ifndef CLI_VIEWS_TIPPING_VIEW_H
#define CLI_VIEWS_TIPPING_VIEW_H

#include "cli/input/setup.h"
#include "search/robust.h"

struct tipping_view {
    bool is_known; /* the ranking has several plans and is by time */
    struct tipping_point point;
    bool has_experts; /* the model has experts whose loads can be made unequal */
    struct routing_flip routing;
};

/* Finds the tipping point among the plans of a ranking. */
struct tipping_view tipping_find(const struct setup *setup, const struct search_request *request,
                                 const struct search_result *result);

void show_tipping_point(const struct tipping_view *view, const struct search_result *result);
/* "tipping_point": { "name", "summary", "factor", "to" }, or null; with experts also
 * "routing_tipping_point": { "cv", "to" }, or null. */
void add_tipping_json(json_t *object, const struct tipping_view *view,
                      const struct search_result *result);

#endif
