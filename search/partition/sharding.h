/* search/partition/sharding.h - how tensor ranks share one operator, and what it takes to hand a
 * tensor from one to the next.
 *
 * A tensor is held whole by every rank, split along its hidden dimension, split along the sequence,
 * or is there as partial sums. Operators say which they read and which they leave; where two
 * neighbours disagree the tensor is resharded, and its gradient on the way back.
 *
 * Linear layers are Y = X W with tokens as rows, as in Megatron: splitting the columns of W splits
 * Y, splitting its rows splits X. Who writes Y = W X says "row" for what is "column" here. */
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
    enum tensor_placement output_gradient; /* that the backward reads */
    enum tensor_placement input_gradient;  /* that it leaves */
};
extern const struct sharding_info shardings[NUM_SHARDINGS];

/* What each collective takes for one tensor, in any unit. */
struct reshard {
    double all_reduce, all_gather, reduce_scatter, all_to_all;
};

/* From one placement to another, which is never PLACED_PARTIAL. Whole to split is free: each rank
 * drops what is not its own. */
double reshard_cost(const struct reshard *reshard, enum tensor_placement from,
                    enum tensor_placement to);

/* What it takes: "all-gather", "all-to-all" ...; "" when nothing is sent. */
const char *reshard_name(enum tensor_placement from, enum tensor_placement to);
/* Whether that is an all-gather. */
bool reshard_gathers(enum tensor_placement from, enum tensor_placement to);

/* In units of S (n - 1) / n for a tensor of `size` S on n ranks, as rings move them: an all-gather
 * or a reduce-scatter 1, an all-reduce both, an all-to-all 1 / n as each rank sends of its own n-th
 * alone. */
struct reshard reshard_units(double size, int num_ranks);

/* The same where partial sums can only be all-reduced: who wants a part drops the rest. */
struct reshard reshard_units_all_reduce(double size, int num_ranks);

#endif
