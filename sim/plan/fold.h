/* sim/plan/fold.h - replaces a pipeline that holds two mirrored copies of the model (DualPipe) by
 * an equivalent one with half the stages.
 *
 * Stage s of DualPipe holds part s of the model for half of the microbatches and part pp - 1 - s
 * for the other half, which run through the stages in the opposite order. Stages s and pp - 1 - s
 * thus hold the same weights, run the same instructions and sum their gradients. So they are two
 * data ranks of one stage of DualPipeV, a pipeline over pp / 2 stages with two chunks each and
 * twice the dp. One difference remains: between the two middle parts DualPipe sends a message, and
 * DualPipeV does not. */
#ifndef SIM_PLAN_FOLD_H
#define SIM_PLAN_FOLD_H

#include "sim/plan/plan.h"

/* Whether the plan's schedule holds two mirrored copies of the model. */
bool plan_is_mirrored(const struct plan *plan);

/* The DualPipeV plan that is equivalent to a mirrored plan. Arrays are borrowed: chunk c of the
 * result is stage c of the mirrored plan. */
struct plan plan_folded(const struct plan *plan);

/* The stage of the equivalent plan that has the chunks of a mirrored plan's `stage`. */
static inline int folded_stage(int num_stages, int stage)
{
    return stage < num_stages / 2 ? stage : num_stages - 1 - stage;
}

#endif
