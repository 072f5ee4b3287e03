/* Converts a rank to its coordinates on the axes (tp, cp, dp, pp) and back, and counts the nodes
 * over which a group of ranks is spread. A group has `size` ranks, `stride` apart. */
#include "sim/plan/layout.h"

#include "sim/plan/axis.h"
#include "sim/plan/ranks.h"

#include <string.h>

struct grid plan_grid(const struct plan *plan)
{
    struct grid grid;
    memcpy(grid.order, plan->order, sizeof grid.order);
    for (int axis = 0; axis < num_axes; axis++)
        grid.degree[axis] = axes[axis]->is_folded ? 1 : plan->degree[axis];
    return grid;
}

struct grid plan_expert_grid(const struct plan *plan)
{
    struct grid grid = plan_grid(plan);
    int one_copy = 1;
    for (int axis = 0; axis < num_axes; axis++) {
        grid.degree[axis] = axes[axis]->expert_degree ? axes[axis]->expert_degree(plan) : 1;
        one_copy *= grid.degree[axis];
    }
    grid.degree[AXIS_DATA] = plan_ranks(plan) / one_copy;
    return grid;
}

int grid_ranks(const struct grid *grid)
{
    int ranks = 1;
    for (int axis = 0; axis < num_axes; axis++)
        ranks *= grid->degree[axis];
    return ranks;
}

int grid_stride(const struct grid *grid, enum axis_id axis)
{
    int stride = 1;
    for (int i = 0; i < num_axes && grid->order[i] != (int)axis; i++)
        stride *= grid->degree[grid->order[i]];
    return stride;
}

/* In Megatron's order the rank is tp + TP (cp + CP (dp + DP pp)), with coordinates in small and
 * degrees in capital letters; other orders are analogous. */
int grid_rank_of(const struct grid *grid, struct coordinates at)
{
    int rank = 0;
    for (int i = num_axes - 1; i >= 0; i--)
        rank = rank * grid->degree[grid->order[i]] + at.at[grid->order[i]];
    return rank;
}

struct coordinates grid_coordinates_of(const struct grid *grid, int rank)
{
    struct coordinates at = { 0 };
    for (int i = 0; i < num_axes; i++) {
        int axis = grid->order[i];
        at.at[axis] = rank % grid->degree[axis];
        rank /= grid->degree[axis];
    }
    return at;
}

int layout_stride(const struct plan *plan, enum axis_id axis)
{
    int stride = 1;
    for (int i = 0; i < num_axes && plan->order[i] != (int)axis; i++)
        if (!axes[plan->order[i]]->is_folded)
            stride *= plan->degree[plan->order[i]];
    return stride;
}

int layout_rank_of(const struct plan *plan, struct coordinates at)
{
    struct grid grid = plan_grid(plan);
    return grid_rank_of(&grid, at);
}

struct coordinates layout_coordinates_of(const struct plan *plan, int rank)
{
    struct grid grid = plan_grid(plan);
    return grid_coordinates_of(&grid, rank);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Counts members per node from the node of rank `start` on. Members are in ascending order, so
 * those of a node are consecutive. If they are less than a node apart, no node between two members
 * is empty. The counts repeat after at most node_size members, so only a few periods and the last
 * node are examined. */
static struct span count_span(int start, int stride, int size, int node_size)
{
    if (stride >= node_size)
        return (struct span){ .ranks_per_node = 1, .fewest_in_node = 1, .num_nodes = size };
    int last = start + (size - 1) * stride;
    int last_node = last / node_size;
    int in_last = least(size, (last - last_node * node_size) / stride + 1);
    struct span span = { .ranks_per_node = in_last,
                         .fewest_in_node = in_last,
                         .num_nodes = last_node - start / node_size + 1 };
    int node = start / node_size;
    int in_node = 0;
    for (int i = 0; i < least(size, 3 * node_size); i++) {
        int node_of_i = (start + i * stride) / node_size;
        if (node_of_i != node) {
            span.ranks_per_node = in_node > span.ranks_per_node ? in_node : span.ranks_per_node;
            span.fewest_in_node = least(span.fewest_in_node, in_node);
            node = node_of_i;
            in_node = 0;
        }
        in_node++;
    }
    return span;
}

struct span layout_span(int stride, int size, int node_size)
{
    if (node_size % stride == 0) {
        int in_node = least(size, node_size / stride);
        int num_nodes = (size - 1) / in_node + 1;
        return (struct span){ .ranks_per_node = in_node,
                              .fewest_in_node = size - (num_nodes - 1) * in_node,
                              .num_nodes = num_nodes };
    }
    return count_span(0, stride, size, node_size);
}

static int common_divisor(int a, int b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

static bool is_worse(struct span a, struct span b)
{
    if (a.num_nodes != b.num_nodes)
        return a.num_nodes > b.num_nodes;
    if (a.fewest_in_node != b.fewest_in_node)
        return a.fewest_in_node < b.fewest_in_node;
    return a.ranks_per_node < b.ranks_per_node;
}

/* Groups begin at a + b stride size with a < stride. A group's span depends only on the offset of
 * its first rank within a node, so each offset is examined once. */
struct span layout_worst_span(int stride, int size, int num_ranks, int node_size)
{
    struct span worst = layout_span(stride, size, node_size);
    if (stride % node_size == 0)
        return worst;
    int block = stride * size;
    int num_blocks = least(num_ranks / block, node_size / common_divisor(block, node_size));
    for (int b = 0; b < num_blocks; b++)
        for (int a = 0; a < least(stride, node_size); a++) {
            struct span span = count_span(a + b * block, stride, size, node_size);
            if (is_worse(span, worst))
                worst = span;
        }
    return worst;
}

struct span layout_axis_span(const struct plan *plan, enum axis_id axis, int node_size)
{
    struct grid grid = plan_grid(plan);
    return layout_worst_span(grid_stride(&grid, axis), grid.degree[axis], plan_ranks(plan),
                             node_size);
}
