/* sim/plan/share.h - the part of a plan that determines a rank's sizes, op lists and weights.
 *
 * Functions that make op lists receive only this part, so equal shares have equal lists. */
#ifndef SIM_PLAN_SHARE_H
#define SIM_PLAN_SHARE_H

#include "sim/plan/plan.h"

/* Members have the meaning of those in struct plan. All are ints, without padding, so equal shares
 * have equal bytes. */
struct rank_share {
    union {
        int degree[MAX_AXES]; /* degree of each axis that divides a layer; 0 for the other axes */
        struct {
            int tp, cp, ep, further_degrees[MAX_AXES - AXIS_EXPERT - 1];
        };
    };
    int etp, microbatch;
    int sp;           /* 0 or 1 */
    int context_comm; /* enum context_comm */
    int capacity;     /* rows that an expert takes, in hundredths of the mean; 0: it takes all */
    int ends_meet;    /* 0 or 1: one stage has embedding and head, so tied tables need no copy */
    /* 0 or 1: modules for later tokens hold a copy of the embedding table, on a stage that has
     * neither embedding nor head */
    int mtp_apart;
};

struct rank_share rank_share_of(const struct plan *plan);

#endif
