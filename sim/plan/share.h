/* sim/plan/share.h - the part of a plan that determines a rank's sizes, op lists and weights.
 *
 * No other part of a plan is passed on, so equal shares have equal lists. */
#ifndef SIM_PLAN_SHARE_H
#define SIM_PLAN_SHARE_H

#include "sim/plan/plan.h"

/* Members as in struct plan. Only ints, without padding: equal shares have equal bytes. */
struct rank_share {
    union {
        int degree[MAX_AXES]; /* of axes that divide a layer; 0: of the others */
        struct {
            int tp, cp, ep, further_degrees[MAX_AXES - AXIS_EXPERT - 1];
        };
    };
    int etp, microbatch;
    int sp;           /* 0 or 1 */
    int context_comm; /* enum context_comm */
    int capacity;     /* hundredths; 0: experts take all rows */
    int ends_meet;    /* 0 or 1: one stage has embedding and head, so tied tables need no copy */
};

struct rank_share rank_share_of(const struct plan *plan);

#endif
