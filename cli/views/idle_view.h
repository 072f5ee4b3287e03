/* cli/views/idle_view.h - shows the idle time of each stage in a step. All other parts of the step
 * time in an answer are those of the busiest stage. */
#ifndef CLI_VIEWS_IDLE_VIEW_H
#define CLI_VIEWS_IDLE_VIEW_H

#include "base/json.h"
#include "cli/input/setup.h"

/* Adds "idle_s_by_stage", and "imbalance": the work of the busiest stage in a step, relative to the
 * mean of all stages. The prediction must contain step_s. */
void idle_set_json(json_t *object, const struct setup *setup, const struct plan *plan,
                   double step_s);

/* If the idle times of stages differ by 5 % of the step or more, adds "stages 0-2 97 %, stage 3 0 %
 * of the step; the busiest stage has 3.6 times the mean work". */
void idle_add_words(struct text *out, const struct setup *setup, const struct plan *plan,
                    double step_s, bool all_stages);

#endif
