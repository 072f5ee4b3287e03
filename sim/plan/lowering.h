/* sim/plan/lowering.h - what a plan's schedule needs beside compute. */
#ifndef SIM_PLAN_LOWERING_H
#define SIM_PLAN_LOWERING_H

#include "sim/plan/plan.h"
#include "sim/schedule/schedule.h"

struct lowering plan_lowering(const struct plan *plan, const struct model *model);
struct schedule_shape plan_shape(const struct plan *plan, double global_batch);

/* About how many instructions a plan has in all: what a list that is shown or timed one by one
 * should be held against first. */
double plan_instructions(const struct plan *plan, double global_batch);

#endif
