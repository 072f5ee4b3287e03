/* cli/views/routing_view.h - a plan's step time and memory for several degrees of imbalance of the
 * experts' loads. */
#ifndef CLI_VIEWS_ROUTING_VIEW_H
#define CLI_VIEWS_ROUTING_VIEW_H

#include "cli/input/setup.h"
#include "cli/print/terminal.h"

/* A row of the table: the step time and memory with one routing. */
struct routing_case {
    struct routing routing;
    double rank_factor, expert_factor, peak_factor; /* as in models/routing.h */
    double step_s, memory_bytes;
};
enum { NUM_ROUTING_CASES = 6 };

/* Fills in the cases; false, without filling them, if the model has no experts. */
bool routing_cases(const struct setup *setup, struct routing_case cases[NUM_ROUTING_CASES]);

/* Shows the table; prints nothing without experts. */
void show_routing(const struct terminal *terminal, const struct setup *setup);
/* Adds "routing": [{ "routing", "cv", "rank_factor", ... }] if the model has experts. */
void add_routing_json(json_t *object, const struct setup *setup);

#endif
