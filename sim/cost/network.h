/* sim/cost/network.h - the wires that a group of ranks uses.
 *
 * It turns the cluster's levels, the places of the group's members and the profile's calibrated
 * factors into the input of the collective model. */
#ifndef SIM_COST_NETWORK_H
#define SIM_COST_NETWORK_H

#include "sim/cost/hardware.h"
#include "sim/plan/group.h"

/* All groups along the same axes communicate at once, so each rank gets only its own share of the
 * node's NICs. When groups do not align with nodes, this is the worst placed one: the step waits
 * for it. */
struct comm_group network_group(const struct system *system, const struct rank_group *group);
/* The same for the group of a plan along a set of axes (enum axis_set). */
struct comm_group network_plan_group(const struct system *system, const struct plan *plan,
                                     unsigned along);

/* The pair of a rank and the next of its group, which has one set of members: on one node, or on
 * two (`crosses`). */
struct comm_group network_pair(const struct system *system, const struct rank_group *group,
                               bool crosses);
/* Whether some such pair lies on two nodes. */
bool network_crosses(const struct system *system, const struct rank_group *group);
/* Whether the pair of a stage and the next, or of the last and the first, lies on two nodes. When
 * stages do not align with nodes every boundary crosses, as it does for some replica. */
bool network_boundary_crosses(const struct system *system, const struct rank_group *stages,
                              int stage);

/* The groups over which gradients are summed and state is gathered. */
struct data_groups {
    struct comm_group shard; /* ranks with one shard each: all data ranks, unless shard=N */
    struct comm_group
        replicas; /* ranks with the same shard; num_ranks 1: nothing else is filled in */
};
struct data_groups network_data_groups(const struct system *system, const struct plan *plan);
/* The same of the experts' gradients and state. */
struct data_groups network_expert_data_groups(const struct system *system, const struct plan *plan);

#endif
