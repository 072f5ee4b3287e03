/* sim/cost/group_links.h - the links over which a group of ranks communicates.
 *
 * It turns the cluster's levels, the places of the group's members and the profile's calibrated
 * factors into the input of the collective model. */
#ifndef SIM_COST_GROUP_LINKS_H
#define SIM_COST_GROUP_LINKS_H

#include "sim/cost/hardware.h"
#include "sim/plan/group.h"

/* All groups along the same axes communicate at once, so each rank gets only its own share of the
 * node's NICs. If groups do not align with nodes, the result is the group with the slowest
 * placement, as the step waits for it. */
struct comm_group network_group(const struct system *system, const struct rank_group *group);
/* The links of a plan's group along a set of axes (enum axis_set). */
struct comm_group network_plan_group(const struct system *system, const struct plan *plan,
                                     unsigned along);

/* The pair of a rank and the next one in `group`, which must be a single set of equally spaced
 * ranks (num_sets 1). The pair lies on one node or, if `crosses`, on two. */
struct comm_group network_pair(const struct system *system, const struct rank_group *group,
                               bool crosses);
/* Whether some rank of the group and the next one are on different nodes. */
bool network_crosses(const struct system *system, const struct rank_group *group);
/* Whether the pair of a stage and the next, or of the last and the first, lies on two nodes. If
 * stages do not align with nodes, every boundary is taken to cross nodes, as it does in some data
 * replica. */
bool network_boundary_crosses(const struct system *system, const struct rank_group *stages,
                              int stage);

/* The groups over which gradients are summed and state is gathered. */
struct data_groups {
    /* ranks over which one copy is sharded: all data ranks, unless the plan has shard=N */
    struct comm_group shard;
    /* ranks with the same shard; if num_ranks is 1, no other field is set */
    struct comm_group replicas;
};
struct data_groups network_data_groups(const struct system *system, const struct plan *plan);
/* The groups over which the experts' gradients are summed and their state is gathered. */
struct data_groups network_expert_data_groups(const struct system *system, const struct plan *plan);

#endif
