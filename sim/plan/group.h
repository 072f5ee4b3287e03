/* sim/plan/group.h - who talks to whom: groups of ranks, defined by the axes they lie along.
 *
 * One definition serves the cost model, which finds the wires a group uses (sim/cost/network.h),
 * and the executor, which makes a communicator of its members (exec/comm/groups.h).
 *
 * All ranks of a job form a grid (sim/plan/layout.h). A group is the ranks that one rank reaches
 * along some axes, or along an equal part of one axis. */
#ifndef SIM_PLAN_GROUP_H
#define SIM_PLAN_GROUP_H

#include "sim/plan/axis.h"
#include "sim/plan/layout.h"

/* The product of sets of members. Sets of one rank are left out; the longest stride comes last. */
struct rank_group {
    int num_ranks; /* of the job */
    int num_sets;
    struct members sets[MAX_AXES];
};

/* Sets of axes; more in sim/plan/axis.h. */
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
struct rank_group plan_group(const struct plan *plan, unsigned along); /* of its grid */
/* The groups of axis number `axis` that run collectives; returns their number. */
int axis_groups(const struct plan *plan, int axis, struct members groups[MAX_AXIS_GROUPS]);
/* The group of one set of members, and of two. */
struct rank_group group_along(struct members set, int num_ranks);
struct rank_group group_along_both(struct members a, struct members b, int num_ranks);

/* shard_ranks: the neighbours that shard the state, along replicated axes in the order of `axes`:
 * context ranks, which are nearest, then data ranks. shard_replicas: the ranks with the same shard;
 * one rank, unless the plan says shard=N. */
struct rank_group shard_ranks(const struct plan *plan);
struct rank_group shard_replicas(const struct plan *plan);

/* Both groups for the experts' weights, whose replicas are the data ranks of the experts' grid. */
struct rank_group expert_shard_ranks(const struct plan *plan);
struct rank_group expert_shard_replicas(const struct plan *plan);

int group_size(const struct rank_group *group);
/* The ranks of the group that `rank` is in, in rising order: room for group_size. Returns it. */
int group_ranks(const struct rank_group *group, int rank, int *members);

#endif
