/* sim/cost/network.h - which wires a group of ranks talks over.
 *
 * From the cluster's levels, where the group's members sit, and the profile's calibrated factors,
 * to what the collective model needs. */
#ifndef SIM_COST_NETWORK_H
#define SIM_COST_NETWORK_H

#include "sim/cost/hardware.h"
#include "sim/plan/group.h"

/* All groups like it talk at once, so each rank has its own share of the node's NICs and no more.
 * Where they do not line up with nodes, the one that lies worst: the step waits for it. */
struct comm_group network_group(const struct system *system, const struct rank_group *group);
/* The group of a plan along `axes`, a set of enum axis_set. */
struct comm_group network_plan_group(const struct system *system, const struct plan *plan,
                                     unsigned axes);

/* A rank and the next of its group, which has one set of members: in a node, or (crosses) in two.
 */
struct comm_group network_pair(const struct system *system, const struct rank_group *group,
                               bool crosses);
/* Whether some such pair is on two nodes. */
bool network_crosses(const struct system *system, const struct rank_group *group);
/* ... that of a stage and the next, or of the last and the first. Stages that do not
 * line up with nodes cross at every boundary, as some replica does. */
bool network_boundary_crosses(const struct system *system, const struct rank_group *stages,
                              int stage);

/* What gradients are summed, and state is gathered, over. */
struct data_groups {
    struct comm_group shard;    /* ranks that have a shard each: all data ranks, unless shard=N */
    struct comm_group replicas; /* those that have the same shard; 1: the rest is not filled in */
};
struct data_groups network_data_groups(const struct system *system, const struct plan *plan);

#endif
