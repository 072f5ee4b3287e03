/* sim/plan/lowering.h - what lowering adds to a plan's compute order. */
#ifndef SIM_PLAN_LOWERING_H
#define SIM_PLAN_LOWERING_H

#include "sim/plan/plan.h"
#include "sim/schedule/schedule.h"

struct lowering plan_lowering(const struct plan *plan, const struct model *model);
struct schedule_shape plan_shape(const struct plan *plan, double global_batch);

/* Approximate number of instructions of a plan: check it before instructions are listed or timed
 * one by one. */
double plan_instructions(const struct plan *plan, double global_batch);

#endif
