/* search/partition/sharding.h - how tensor ranks divide an operator, and the cost of passing a
 * tensor to the next operator.
 *
 * A tensor is held whole by every rank, split along its hidden dimension, split along the sequence,
 * or held as partial sums. Each operator states the placements that it reads and writes. When two
 * neighbouring operators differ, the tensor is resharded in the forward and its gradient in the
 * backward.
 *
 * Linear layers are Y = X W with tokens as rows, as in Megatron: splitting the columns of W splits
 * Y, splitting its rows splits X. With Y = W X, "row" and "column" are exchanged. */
#ifndef SEARCH_PARTITION_SHARDING_H
#define SEARCH_PARTITION_SHARDING_H

#include <stdbool.h>

enum tensor_placement {
    PLACED_WHOLE,
    PLACED_HIDDEN,
    PLACED_SEQUENCE,
    PLACED_PARTIAL,
    NUM_PLACEMENTS
};

enum sharding {
    SHARDING_COLUMN,
    SHARDING_ROW,
    SHARDING_REPLICATED,
    SHARDING_SEQUENCE,
    SHARDING_HIDDEN,
    NUM_SHARDINGS
};

struct sharding_info {
    const char *name; /* "column" */
    const char *meaning;
    enum tensor_placement input, output;
    enum tensor_placement output_gradient; /* placement that the backward reads */
    /* placement of the input gradient that the operator produces */
    enum tensor_placement input_gradient;
};
extern const struct sharding_info shardings[NUM_SHARDINGS];

/* The cost of each collective for one tensor, in any unit. */
struct reshard {
    double all_reduce, all_gather, reduce_scatter, all_to_all;
};

/* The cost from one placement to another; `to` is never PLACED_PARTIAL. Whole to split is free:
 * each rank keeps its own part. */
double reshard_cost(const struct reshard *reshard, enum tensor_placement from,
                    enum tensor_placement to);

/* The collective of reshard_cost: "all-gather", "all-to-all" ...; "" when nothing is sent. */
const char *reshard_name(enum tensor_placement from, enum tensor_placement to);
/* Whether resharding needs an all-gather. */
bool reshard_gathers(enum tensor_placement from, enum tensor_placement to);

/* Costs of ring collectives in units of S (n - 1) / n, for a tensor of `size` S on n ranks: 1 for
 * an all-gather or a reduce-scatter, 2 for an all-reduce, 1 / n for an all-to-all, as each rank
 * holds only 1 / n of the tensor. */
struct reshard reshard_units(double size, int num_ranks);

/* Like reshard_units, but partial sums can only be all-reduced: a rank that needs only a part drops
 * the rest. */
struct reshard reshard_units_all_reduce(double size, int num_ranks);

#endif
