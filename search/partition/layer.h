/* search/partition/layer.h - the partition problem of a transformer layer on its tensor ranks.
 *
 * Operators are those of models/layer.h: each linear layer by columns, by rows, replicated or by
 * tokens; the attention core whole or by heads; the activation whole, split or by tokens; norms and
 * residuals whole or by tokens. Seconds are those of the cost model: the op as the sharding leaves
 * it on one rank, forward and backward of one microbatch, and the collectives of the plan's tensor
 * group around it. Megatron's two partitions therefore take what the cost model says of a layer
 * with and without sp.
 *
 * Bytes are what one layer keeps on a rank of the first stage: state of its weights, and
 * activations of the microbatches in flight. An input that was gathered is kept as the part it was
 * gathered from, and gathered again for the weight gradient, as Megatron does. Products are taken
 * in the plan's 16 bits also where it says fp8; context ranks' own exchange is the same for all and
 * left out, and so is full:K's and block:N's recompute. */
#ifndef SEARCH_PARTITION_LAYER_H
#define SEARCH_PARTITION_LAYER_H

#include "search/partition/partition.h"
#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

struct layer_partition {
    const struct system *system;
    const struct model *model; /* batch and seq are the run's */
    const struct plan *plan;   /* has passed plan_check; tp > 1 */
};

/* Arrays in the arena. The budget is what the first stage's layers may have each: the GPU's memory
 * less all that is no layer's. */
struct partition_problem layer_partition_problem(const struct layer_partition *of,
                                                 struct arena *arena);

/* A partition that has a name. */
struct known_partition {
    const char *name; /* "megatron-sp" */
    const char *summary;
    const char *source;
    enum sharding stream;        /* of norms and residuals */
    enum sharding first, second; /* of qkv and fc1, and of the projection and fc2 */
    enum sharding core;          /* of attention */
    enum sharding activation;
};
extern const struct known_partition known_partitions[];
extern const int num_known_partitions;

/* The same as shardings of a layer's operators, with its score. */
struct partition known_partition_of(const struct known_partition *known,
                                    const struct partition_problem *problem);
/* The known one that this is; NULL: none. */
const struct known_partition *known_partition_find(const struct partition_problem *problem,
                                                   const struct partition *partition);

#endif
