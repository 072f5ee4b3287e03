/* sim/cost/stage_weights.h - the weights of a pipeline stage that one rank holds, and the part of
 * their state (such as gradients) that it keeps. Experts and all other weights are sharded over
 * different groups of ranks. */
#ifndef SIM_COST_STAGE_WEIGHTS_H
#define SIM_COST_STAGE_WEIGHTS_H

#include "sim/plan/state_share.h"

/* Numbers of parameters, or of bytes. */
struct stage_weights {
    double all;
    double experts; /* the part of `all` that belongs to experts */
};

static inline struct stage_weights stage_weights_times(struct stage_weights weights, double factor)
{
    return (struct stage_weights){ weights.all * factor, weights.experts * factor };
}

/* The part of the weights for which this rank keeps the state `what`. */
static inline double stage_weights_share(struct stage_weights weights, const struct plan *plan,
                                         enum state what)
{
    return (weights.all - weights.experts) / state_ranks(plan, what) +
           weights.experts / expert_state_ranks(plan, what);
}

#endif
