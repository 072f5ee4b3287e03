/* cli/views/robust_view.h - "search --robust": whether the best plan stays the best under other
 * costs. */
#ifndef CLI_VIEWS_ROBUST_VIEW_H
#define CLI_VIEWS_ROBUST_VIEW_H

#include "cli/input/setup.h"
#include "search/questions/region.h"
#include "search/robust.h"

struct robust_view {
    bool is_asked; /* --robust was given; otherwise nothing is shown */
    int seed;
    struct robustness found;
    const struct search_result *result; /* the search result; its top plans are compared */
};

/* Reads and checks the value of --robust. */
bool check_robust_options(struct options *options, struct err *err);

/* Number of plans that the search must keep for the comparison. */
int robust_top(const struct options *options, int top);

/* Examines the result of a search that kept robust_top plans. It does nothing without --robust or
 * without a plan. */
struct robust_view robust_find(const struct options *options, const struct setup *setup,
                               const struct search_request *request,
                               const struct search_result *result);

void show_robustness(const struct robust_view *view);
/* The answer of "search --robust region"; prints and adds nothing if `region` is NULL. */
void show_region(const struct region *region);
void add_region_json(json_t *object, const struct region *region);
void add_robustness_json(json_t *object, const struct robust_view *view);

#endif
