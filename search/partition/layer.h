/* search/partition/layer.h - the partition problem of a transformer layer on its tensor ranks.
 *
 * The operators are those of models/layer.h, with these shardings: each linear layer by columns, by
 * rows, replicated or by tokens; the attention core whole or by heads; the activation whole, split
 * or by tokens; norms and residuals whole or by tokens. Seconds come from the cost model, for the
 * forward and backward of one microbatch. They include one rank's part of the op and the
 * collectives of the plan's tensor group around it. Megatron's two partitions therefore cost the
 * same as a layer with and without sp in the cost model.
 *
 * Bytes are those of one layer on a rank of the first stage: the state of its weights, and the
 * activations of the microbatches in flight. A gathered input is kept as this rank's part and
 * gathered again for the weight gradient, as Megatron does. Simplifications: products use the
 * plan's 16-bit type even with fp8; the exchange between context ranks is left out, as it is the
 * same for all partitions; recompute of full:K and block:N is left out too. */
#ifndef SEARCH_PARTITION_LAYER_H
#define SEARCH_PARTITION_LAYER_H

#include "search/partition/partition.h"
#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

struct layer_partition {
    const struct system *system;
    const struct model *model; /* its batch and sequence length are those of the run */
    const struct plan *plan;   /* has passed plan_check; tp > 1 */
};

/* Arrays in the arena. The budget is the first stage's memory per layer: GPU memory minus
 * everything that belongs to no layer, divided by the stage's layers. */
struct partition_problem layer_partition_problem(const struct layer_partition *of,
                                                 struct arena *arena);

/* A partition in common use, by name. */
struct known_partition {
    const char *name; /* "megatron-sp" */
    const char *summary;
    const char *source;
    enum sharding stream;        /* sharding of norms and residuals */
    enum sharding first, second; /* sharding of qkv and fc1, and of the projection and fc2 */
    enum sharding core;          /* sharding of attention */
    enum sharding activation;
};
extern const struct known_partition known_partitions[];
extern const int num_known_partitions;

/* The named partition as shardings of a layer's operators, with its score. */
struct partition known_partition_of(const struct known_partition *known,
                                    const struct partition_problem *problem);
/* The known partition that equals `partition`; NULL: none. */
const struct known_partition *known_partition_find(const struct partition_problem *problem,
                                                   const struct partition *partition);

#endif
