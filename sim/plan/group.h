/* sim/plan/group.h - who talks to whom: groups of ranks, from the axes that they lie along.
 *
 * One definition for the cost model, which asks what wires a group lies on (sim/cost/network.h),
 * and for the executor, which makes a communicator of its members (exec/groups.h).
 *
 * All ranks of a job form a grid (sim/plan/layout.h). A group has the ranks that one rank reaches
 * along some of its axes, or along an equal part of one. */
#ifndef SIM_PLAN_GROUP_H
#define SIM_PLAN_GROUP_H

#include "sim/plan/layout.h"

/* Every `stride`-th rank, `size` of them: along an axis, or along an equal part of one. */
struct members {
    int stride, size;
};

/* One of each set of members with one of each other. Sets of one rank are left out; the longest
 * stride is the last. */
struct rank_group {
    int num_ranks; /* of the job */
    int num_sets;
    struct members sets[NUM_AXES];
};

enum axis_set {
    TENSOR_RANKS = 1u << AXIS_TENSOR,
    CONTEXT_RANKS = 1u << AXIS_CONTEXT,
    EXPERT_RANKS = 1u << AXIS_EXPERT,
    DATA_RANKS = 1u << AXIS_DATA,
    PIPELINE_RANKS = 1u << AXIS_PIPELINE,
    REPLICAS = DATA_RANKS | CONTEXT_RANKS, /* ranks with the same weights */
    MODEL_RANKS = TENSOR_RANKS | PIPELINE_RANKS,
    ALL_RANKS = REPLICAS | MODEL_RANKS | EXPERT_RANKS,
};

struct members grid_members(const struct grid *grid, enum axis_id axis);
/* `axes`: a set of enum axis_set. */
struct rank_group grid_group(const struct grid *grid, unsigned axes);
struct rank_group plan_group(const struct plan *plan, unsigned axes); /* of its grid */
/* Of one set; and of two. */
struct rank_group group_along(struct members set, int num_ranks);
struct rank_group group_along_both(struct members a, struct members b, int num_ranks);

/* Neighbours shard state: context ranks first, as they are nearest, then data ranks. Replicas have
 * the same shard: one rank, unless the plan says shard=N. */
struct rank_group shard_ranks(const struct plan *plan);
struct rank_group shard_replicas(const struct plan *plan);

int group_size(const struct rank_group *group);
/* The ranks of the group that `rank` is in, in rising order: room for group_size. Returns it. */
int group_ranks(const struct rank_group *group, int rank, int *members);

#endif
