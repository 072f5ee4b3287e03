/* sim/plan/group.h - groups of ranks that communicate, defined by the axes along which they lie.
 *
 * The cost model finds the links that a group uses (sim/cost/group_links.h), and the executor makes
 * a communicator of its members (exec/comm/groups.h).
 *
 * All ranks of a job form a grid (sim/plan/layout.h). A group is the ranks that one rank reaches
 * along some axes, or along an equal part of one axis. */
#ifndef SIM_PLAN_GROUP_H
#define SIM_PLAN_GROUP_H

#include "sim/plan/axis.h"
#include "sim/plan/layout.h"

/* A group is the Cartesian product of sets of members. Sets with one rank are left out; the set
 * with the longest stride comes last. */
struct rank_group {
    int num_ranks; /* number of ranks in the job */
    int num_sets;
    struct members sets[MAX_AXES];
};

/* Named bit sets of axes; sim/plan/axis.h has functions for further sets. */
enum axis_set {
    TENSOR_RANKS = 1u << AXIS_TENSOR,
    CONTEXT_RANKS = 1u << AXIS_CONTEXT,
    EXPERT_RANKS = 1u << AXIS_EXPERT,
    DATA_RANKS = 1u << AXIS_DATA,
    PIPELINE_RANKS = 1u << AXIS_PIPELINE,
    ALL_RANKS = (1u << MAX_AXES) - 1,
};

struct members grid_members(const struct grid *grid, enum axis_id axis);
/* `along`: a set of enum axis_set. */
struct rank_group grid_group(const struct grid *grid, unsigned along);
/* grid_group in the plan's grid */
struct rank_group plan_group(const struct plan *plan, unsigned along);
/* The groups of axis number `axis` that run collectives; returns their number. */
int axis_groups(const struct plan *plan, int axis, struct members groups[MAX_AXIS_GROUPS]);
/* The group that consists of one set of members, and the product of two sets. */
struct rank_group group_along(struct members set, int num_ranks);
struct rank_group group_along_both(struct members a, struct members b, int num_ranks);

/* shard_ranks: the ranks that shard one copy of the state, nearest first: context ranks, then data
 * ranks. shard_replicas: the ranks that hold the same shard; one rank, unless the plan has
 * shard=N. */
struct rank_group shard_ranks(const struct plan *plan);
struct rank_group shard_replicas(const struct plan *plan);

/* shard_ranks and shard_replicas for the experts' weights, whose replicas are the data ranks of the
 * experts' grid. */
struct rank_group expert_shard_ranks(const struct plan *plan);
struct rank_group expert_shard_replicas(const struct plan *plan);

int group_size(const struct rank_group *group);
/* Writes the ranks of the group that contains `rank`, in ascending order, to `members`, which has
 * room for group_size entries. Returns their number. */
int group_ranks(const struct rank_group *group, int rank, int *members);

#endif
