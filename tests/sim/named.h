/* tests/sim/named.h - models and plans by name. A failure to load one fails the test. */
#ifndef TESTS_SIM_NAMED_H
#define TESTS_SIM_NAMED_H

#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

struct model model_of(const char *name);
/* Whether times and memory of the model are predicted, and not only its parameters counted. */
bool has_costs(const struct model *model);
struct plan plan_of(const char *layout, struct arena *arena);
/* Makes a plan for all GPUs of the system. The plan must break no rule of plans. */
struct plan plan_on(const struct system *system, const struct model *model, const char *layout,
                    struct arena *arena);

#endif
