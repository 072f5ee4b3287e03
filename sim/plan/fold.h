/* sim/plan/fold.h - a pipeline whose two halves mirror each other, as one of half the stages.
 *
 * DualPipe holds the model twice: stage s has part s for microbatches that go down, and part pp - 1
 * - s for those that go up, as stage pp - 1 - s has too. Each microbatch passes one copy. Stages s
 * and pp - 1 - s thus hold the same weights, run the same list and sum their gradients together:
 * they are two data ranks of one stage of a V over pp / 2 stages (DualPipeV), with twice the dp.
 * Only the turn differs, which is a message between the two middle stages here. */
#ifndef SIM_PLAN_FOLD_H
#define SIM_PLAN_FOLD_H

#include "sim/plan/plan.h"

/* Whether the plan's schedule has two copies of the model. */
bool plan_is_mirrored(const struct plan *plan);

/* The V that a mirrored plan is equal to. Arrays are borrowed: chunk c of the V is stage c. */
struct plan plan_folded(const struct plan *plan);

/* The stage of the V that has the chunks of a mirrored plan's stage. */
static inline int folded_stage(int num_stages, int stage)
{
    return stage < num_stages / 2 ? stage : num_stages - 1 - stage;
}

#endif
