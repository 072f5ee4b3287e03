/* sim/cost/network.h - which wires a group of ranks talks over.
 *
 * From the cluster's levels, where the group's members sit, and the profile's calibrated factors,
 * to what the collective model needs. */
#ifndef SIM_COST_NETWORK_H
#define SIM_COST_NETWORK_H

#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

/* `size` ranks, `stride` apart in rank order, from rank 0. All groups of the axis talk at once, so
 * each rank has its own share of the node's NICs and no more. */
struct comm_group network_group(const struct system *system, int stride, int size);

/* Every `stride`-th rank, `size` of them: an axis, or an equal part of one. */
struct members {
    int stride, size;
};
struct members network_members(const struct plan *plan, enum axis_id axis);

/* The worst of such groups among `num_ranks` ranks; and one of its ranks and the next, where they
 * are farthest apart. */
struct comm_group network_members_group(const struct system *system, struct members of,
                                        int num_ranks);
struct comm_group network_members_pair(const struct system *system, struct members of,
                                       int num_ranks);

/* The group of a plan's axis; data: with context inside. */
struct comm_group network_axis_group(const struct system *system, const struct plan *plan,
                                     enum axis_id axis);

/* Tensor and pipeline ranks: one copy of the model. */
struct comm_group network_model_group(const struct system *system, const struct plan *plan);

/* What gradients are summed, and state is gathered, over. */
struct data_groups {
    struct comm_group shard;    /* ranks that have a shard each: all data ranks, unless shard=N */
    struct comm_group replicas; /* those that have the same shard; 1: the rest is not filled in */
};
struct data_groups network_data_groups(const struct system *system, const struct plan *plan);

/* One rank of the axis and the next, where they are farthest apart. */
struct comm_group network_axis_pair(const struct system *system, const struct plan *plan,
                                    enum axis_id axis);

/* `size` data ranks that are `stride` data ranks apart. cp 1. */
struct comm_group network_data_part(const struct system *system, const struct plan *plan,
                                    int stride, int size);
/* Two data ranks in different nodes, or in one. */
struct comm_group network_data_pair(const struct system *system, const struct plan *plan,
                                    bool crosses);

/* One pipeline stage and the next, where the boundary is slowest. */
struct comm_group network_stage_pair(const struct system *system, const struct plan *plan);

/* The boundary of a stage and the next, or of the last and the first: whether any two of their
 * ranks are on different nodes, and how they talk where they are, or are not. Stages that do not
 * line up with nodes cross at every boundary, as some replica does. */
bool network_boundary_crosses(const struct system *system, const struct plan *plan, int stage);
struct comm_group network_boundary_pair(const struct system *system, const struct plan *plan,
                                        bool crosses);

#endif
