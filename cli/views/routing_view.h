/* cli/views/routing_view.h - a plan's step and memory by how unevenly tokens spread over experts.
 */
#ifndef CLI_VIEWS_ROUTING_VIEW_H
#define CLI_VIEWS_ROUTING_VIEW_H

#include "cli/input/setup.h"
#include "cli/print/terminal.h"

/* A row of the table: what a routing costs. */
struct routing_case {
    struct routing routing;
    double rank_factor, expert_factor, peak_factor; /* models/routing.h */
    double step_s, memory_bytes;
};
enum { NUM_ROUTING_CASES = 6 };

/* False where the model has no experts: `cases` are then not filled in. */
bool routing_cases(const struct setup *setup, struct routing_case cases[NUM_ROUTING_CASES]);

/* Nothing without experts. */
void show_routing(const struct terminal *terminal, const struct setup *setup);
/* "routing": [{ "routing", "cv", "rank_factor", ... }], or nothing. */
void add_routing_json(json_t *object, const struct setup *setup);

#endif
