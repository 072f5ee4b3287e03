/* sim/plan/layout.h - converts ranks to coordinates and back, and counts the nodes of a group. */
#ifndef SIM_PLAN_LAYOUT_H
#define SIM_PLAN_LAYOUT_H

#include "sim/plan/plan.h"

struct coordinates {
    int at[MAX_AXES]; /* indexed as `axes` */
};

/* The grid of a job's ranks. `order` lists the axes from the fastest, whose ranks are adjacent, to
 * the slowest. */
struct grid {
    int order[MAX_AXES];
    int degree[MAX_AXES]; /* indexed as `axes` */
};
/* The plan's grid. The expert axis adds no ranks and has degree 1 here. */
struct grid plan_grid(const struct plan *plan);
/* The grid of experts, over the same ranks in the same order (Megatron-Core's folding):
 * it has expert-tensor, expert and pipeline ranks, and the remaining ranks are its data ranks,
 * which hold the same experts. The plan's ranks must be a multiple of etp x ep x pp. */
struct grid plan_expert_grid(const struct plan *plan);

int grid_ranks(const struct grid *grid);
/* Distance in ranks between neighbours along the axis: the product of the degrees of faster
 * axes. */
int grid_stride(const struct grid *grid, enum axis_id axis);
int grid_rank_of(const struct grid *grid, struct coordinates at);
struct coordinates grid_coordinates_of(const struct grid *grid, int rank);

/* grid_stride() in the grid of the plan. */
int layout_stride(const struct plan *plan, enum axis_id axis);
int layout_rank_of(const struct plan *plan, struct coordinates at);
struct coordinates layout_coordinates_of(const struct plan *plan, int rank);

/* How a group of `size` ranks, `stride` apart, is spread over nodes of `node_size` ranks. */
struct span {
    int ranks_per_node; /* members in the fullest node */
    int num_nodes;
    /* members in the node with the fewest of them, not counting nodes without any */
    int fewest_in_node;
};
/* The span of the group that begins at rank 0. */
struct span layout_span(int stride, int size, int node_size);
/* The widest span among all groups of `size` ranks, `stride` apart, in a job of `num_ranks`: the
 * one with the most nodes, then with the fewest ranks in one node. Spans differ when groups do not
 * align with nodes, and the step waits for the slowest group. */
struct span layout_worst_span(int stride, int size, int num_ranks, int node_size);
/* The widest span among the groups of the axis. */
struct span layout_axis_span(const struct plan *plan, enum axis_id axis, int node_size);

#endif
