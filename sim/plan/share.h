/* sim/plan/share.h - all that a rank's sizes, op lists and weights read of a plan.
 *
 * What is not a member cannot change them, so equal shares have equal lists. */
#ifndef SIM_PLAN_SHARE_H
#define SIM_PLAN_SHARE_H

#include "sim/plan/plan.h"

/* As in struct plan. Of ints alone, without padding: equal shares have equal bytes. */
struct rank_share {
    int tp, cp, microbatch;
    int sp;           /* 0 or 1 */
    int context_comm; /* enum context_comm */
    int ends_meet;    /* 0 or 1: a stage has embedding and head, and needs no copy of tied tables */
};

static inline struct rank_share rank_share_of(const struct plan *plan)
{
    return (struct rank_share){ .tp = plan->tp,
                                .cp = plan->cp,
                                .microbatch = plan->microbatch,
                                .sp = plan->sp,
                                .context_comm = plan->context_comm,
                                .ends_meet = placement_ends_meet(plan_placement(plan)) };
}

#endif
