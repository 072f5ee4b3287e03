/* sim/plan/layout.h - rank <-> coordinates, and where the members of a group sit. */
#ifndef SIM_PLAN_LAYOUT_H
#define SIM_PLAN_LAYOUT_H

#include "sim/plan/plan.h"

struct coordinates {
    int at[MAX_AXES]; /* indexed as `axes` */
};

/* The ranks of a job by coordinates; `order` lists the axes from the fastest (neighbouring ranks)
 * to the slowest. */
struct grid {
    int order[MAX_AXES];
    int degree[MAX_AXES]; /* indexed as `axes` */
};
/* The grid of all axes with ranks of their own; the expert axis is 1. */
struct grid plan_grid(const struct plan *plan);
/* The grid of experts, over the same ranks in the same order (Megatron-Core's folding):
 * expert-tensor, expert and pipeline ranks; its data ranks are all others, and hold the same
 * experts. The plan's ranks must be a multiple of etp x ep x pp. */
struct grid plan_expert_grid(const struct plan *plan);

int grid_ranks(const struct grid *grid);
/* Distance in ranks between neighbours along the axis: the product of the degrees of faster
 * axes. */
int grid_stride(const struct grid *grid, enum axis_id axis);
int grid_rank_of(const struct grid *grid, struct coordinates at);
struct coordinates grid_coordinates_of(const struct grid *grid, int rank);

/* grid_stride() in the plan's own grid. */
int layout_stride(const struct plan *plan, enum axis_id axis);
int layout_rank_of(const struct plan *plan, struct coordinates at);
struct coordinates layout_coordinates_of(const struct plan *plan, int rank);

/* How a group of `size` ranks, `stride` apart, lies over nodes of `node_size` ranks. */
struct span {
    int ranks_per_node; /* members in the fullest node */
    int num_nodes;
    int fewest_in_node; /* members in the emptiest node it uses */
};
/* The span of the group that begins at rank 0. */
struct span layout_span(int stride, int size, int node_size);
/* The widest span among all groups of `size` ranks, `stride` apart, in `num_ranks`: the most nodes,
 * then the fewest ranks in one node. Spans differ when groups do not align with nodes, and the step
 * waits for the slowest group. */
struct span layout_worst_span(int stride, int size, int num_ranks, int node_size);
/* The widest span among the groups of the axis. */
struct span layout_axis_span(const struct plan *plan, enum axis_id axis, int node_size);

#endif
