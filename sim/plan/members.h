/* sim/plan/members.h - ranks at equal distances. */
#ifndef SIM_PLAN_MEMBERS_H
#define SIM_PLAN_MEMBERS_H

/* `size` ranks, `stride` apart, along an axis or an equal part of one. */
struct members {
    int stride, size;
};

#endif
