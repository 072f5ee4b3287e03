/* sim/plan/share.h - the part of a plan that determines a rank's sizes, op lists and weights.
 *
 * No other part of a plan is passed on, so equal shares have equal lists. */
#ifndef SIM_PLAN_SHARE_H
#define SIM_PLAN_SHARE_H

#include "sim/plan/plan.h"

/* Members as in struct plan. Only ints, without padding: equal shares have equal bytes. */
struct rank_share {
    int tp, cp, ep, etp, microbatch;
    int sp;           /* 0 or 1 */
    int context_comm; /* enum context_comm */
    int capacity;     /* hundredths; 0: experts take all rows */
    int ends_meet;    /* 0 or 1: one stage has embedding and head, so tied tables need no copy */
};

static inline struct rank_share rank_share_of(const struct plan *plan)
{
    return (struct rank_share){ .tp = plan->tp,
                                .cp = plan->cp,
                                .ep = plan->ep,
                                .etp = plan->etp,
                                .microbatch = plan->microbatch,
                                .sp = plan->sp,
                                .context_comm = plan->context_comm,
                                .capacity = plan->capacity,
                                .ends_meet = placement_ends_meet(plan_placement(plan)) };
}

#endif
