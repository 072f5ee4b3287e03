/* cli/tight_view.h - the best of the plans that fit and run out of memory too likely. */
#ifndef CLI_TIGHT_VIEW_H
#define CLI_TIGHT_VIEW_H

#include "cli/setup.h"
#include "search/search.h"

struct tight_view {
    bool is_found; /* it is faster than the best below the risk */
    struct scored_plan plan;
    double saved_share; /* of the best's step */
    struct arena arena;
};

/* Searches once more, for whatever is predicted to fit. */
struct tight_view tight_find(const struct search_request *request,
                             const struct search_result *result);
void tight_release(struct tight_view *view);

void show_tight(const struct tight_view *view);
void add_tight_json(json_t *object, const struct setup *setup, const struct tight_view *view);

#endif
