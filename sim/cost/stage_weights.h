/* sim/cost/stage_weights.h - what one rank holds of a pipeline stage's weights, and its part of
 * their state. Experts and everything else are held and sharded by different ranks. */
#ifndef SIM_COST_STAGE_WEIGHTS_H
#define SIM_COST_STAGE_WEIGHTS_H

#include "sim/plan/state_share.h"

/* Parameters, or their bytes. */
struct stage_weights {
    double all;
    double experts; /* the part of all that only the ranks of its experts share */
};

static inline struct stage_weights stage_weights_times(struct stage_weights weights, double factor)
{
    return (struct stage_weights){ weights.all * factor, weights.experts * factor };
}

/* The part whose `what` this rank keeps. */
static inline double stage_weights_share(struct stage_weights weights, const struct plan *plan,
                                         enum state what)
{
    return (weights.all - weights.experts) / state_ranks(plan, what) +
           weights.experts / expert_state_ranks(plan, what);
}

#endif
