/* sim/plan/lowering.h - the number of instructions that a plan's schedule has after lowering, which
 * adds messages and reductions to the compute instructions. */
#ifndef SIM_PLAN_LOWERING_H
#define SIM_PLAN_LOWERING_H

#include "sim/plan/plan.h"
#include "sim/schedule/schedule.h"

struct lowering plan_lowering(const struct plan *plan, const struct model *model);
struct schedule_shape plan_shape(const struct plan *plan, double global_batch);

/* Approximate number of instructions of a plan. Callers check it before they list or time
 * instructions one by one. */
double plan_instructions(const struct plan *plan, double global_batch);

#endif
