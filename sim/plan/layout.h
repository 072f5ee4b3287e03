/* sim/plan/layout.h - rank <-> coordinates, and where the members of a group sit. */
#ifndef SIM_PLAN_LAYOUT_H
#define SIM_PLAN_LAYOUT_H

#include "sim/plan/plan.h"

struct coordinates {
    int at[NUM_AXES]; /* indexed by enum axis_id */
};

int axis_degree(const struct plan *plan, enum axis_id axis); /* expert: 1, it lies inside data */
/* Ranks between neighbours of the axis' group: the product of the degrees of faster axes. */
int layout_stride(const struct plan *plan, enum axis_id axis);
int layout_rank_of(const struct plan *plan, struct coordinates at);
struct coordinates layout_coordinates_of(const struct plan *plan, int rank);
/* The i-th member of the group of `rank` along `axis`. */
int layout_group_member(const struct plan *plan, int rank, enum axis_id axis, int i);

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
