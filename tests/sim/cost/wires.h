/* tests/sim/cost/wires.h - groups and pairs of ranks for tests. */
#ifndef TESTS_SIM_COST_WIRES_H
#define TESTS_SIM_COST_WIRES_H

#include "sim/cost/group_links.h"

/* The group of a job that has no other ranks. */
static inline struct comm_group group_at(const struct system *system, int stride, int size)
{
    struct rank_group group = group_along((struct members){ stride, size }, stride * size);
    return network_group(system, &group);
}

static inline struct comm_group pair_of(const struct system *system, const struct plan *plan,
                                        unsigned axis, bool crosses)
{
    struct rank_group group = plan_group(plan, axis);
    return network_pair(system, &group, crosses);
}

static inline struct comm_group axis_pair(const struct system *system, const struct plan *plan,
                                          unsigned axis)
{
    struct rank_group group = plan_group(plan, axis);
    return network_pair(system, &group, network_crosses(system, &group));
}

#endif
