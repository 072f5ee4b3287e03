/* sim/plan/members.h - a set of ranks at equal distances. */
#ifndef SIM_PLAN_MEMBERS_H
#define SIM_PLAN_MEMBERS_H

/* `size` ranks, `stride` apart: all ranks along an axis, or one of its equal parts. */
struct members {
    int stride, size;
};

#endif
