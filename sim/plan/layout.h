/* sim/plan/layout.h - rank <-> coordinates, and where the members of a group sit. */
#ifndef SIM_PLAN_LAYOUT_H
#define SIM_PLAN_LAYOUT_H

#include "sim/plan/plan.h"

struct coordinates {
    int at[NUM_AXES]; /* indexed by enum axis_id */
};

/* The ranks of a job by coordinates: `order` from neighbouring ranks to distant ones. */
struct grid {
    int order[NUM_AXES];
    int degree[NUM_AXES]; /* indexed by enum axis_id */
};
/* Of all that is not experts: tensor, context, data and pipeline ranks; expert 1. */
struct grid plan_grid(const struct plan *plan);
/* Of experts, over the same ranks in the same order (Megatron-Core's folding): expert-tensor,
 * expert and pipeline ranks, and as data ranks those that hold the same experts; context 1. The
 * plan's ranks are a multiple of etp x ep x pp. */
struct grid plan_expert_grid(const struct plan *plan);

int grid_ranks(const struct grid *grid);
/* Ranks between neighbours along the axis: the product of the degrees of faster axes. */
int grid_stride(const struct grid *grid, enum axis_id axis);
int grid_rank_of(const struct grid *grid, struct coordinates at);
struct coordinates grid_coordinates_of(const struct grid *grid, int rank);

/* The same of a plan's grid. */
int layout_stride(const struct plan *plan, enum axis_id axis);
int layout_rank_of(const struct plan *plan, struct coordinates at);
struct coordinates layout_coordinates_of(const struct plan *plan, int rank);

/* How a group of `size` ranks, `stride` apart, lies over nodes of `node_size` ranks. */
struct span {
    int ranks_per_node; /* members in the fullest node */
    int num_nodes;
    int fewest_in_node; /* members in the emptiest of them */
};
/* The span of the group that begins at rank 0. */
struct span layout_span(int stride, int size, int node_size);
/* The widest span among the groups of `size` ranks, `stride` apart, of `num_ranks`: over most
 * nodes, then with fewest ranks in one. Spans differ when groups do not line up with nodes, and the
 * step waits for the slowest. */
struct span layout_worst_span(int stride, int size, int num_ranks, int node_size);
/* The widest span among the groups of the axis. */
struct span layout_axis_span(const struct plan *plan, enum axis_id axis, int node_size);

#endif
