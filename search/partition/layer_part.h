/* search/partition/layer_part.h - declarations that the source files of layer_partition_problem
 * share. Only layer.c, layer_operator.c and layer_edge.c include this file. */
#ifndef SEARCH_PARTITION_LAYER_PART_H
#define SEARCH_PARTITION_LAYER_PART_H

#include "models/layer.h"
#include "search/partition/layer.h"
#include "sim/collective/collective.h"

/* An operator: a run of ops of the layer's list that have one sharding. */
struct stretch {
    const char *name;
    int first, count;
    enum operator_role role;
};

/* The data from which the costs of all operators of a layer are computed. */
struct scorer {
    const struct layer_partition *of;
    struct arena *arena;
    struct layer_options options;
    enum attention_kernel attention;
    struct comm_group tensor;
    bool overlaps;
    double element_bytes;
    double hidden_bytes; /* S: bytes of the hidden states of a microbatch */
    double state_bytes;  /* state bytes per parameter on one rank */
    double in_flight;    /* microbatches whose activations a layer keeps */
    double num_microbatches;
    /* The layer's op list (sequence of operations) unsharded, sharded as in Megatron, and for one
     * rank's part of the tokens. All three have the same ops. */
    struct ops whole, hidden, sequence;
    struct stretch stretches[MAX_OPERATORS];
    int num_stretches;
};

/* search/partition/layer_operator.c - the layer's operators and the cost of each one alone. */

/* Fills in the op lists, the bytes of the hidden states, and the stretches (runs of ops with one
 * sharding). */
void layer_find_operators(struct scorer *scorer);
void layer_add_operator(const struct scorer *scorer, int index, struct partition_operator *out);
/* Bytes of an operator's output over all ranks; for attention, the output that the projection
 * reads. */
double layer_output_bytes(const struct scorer *scorer, int index);

/* Whether the operator is a linear layer. */
bool layer_is_linear(const struct scorer *scorer, int index);
/* One rank's shard of a linear layer. If Megatron shards the same dimension, the shard is
 * Megatron's, which respects the number of key heads; else all ranks' shards are equal. */
struct op layer_product_of(const struct scorer *scorer, int index, enum sharding sharding);
struct ops layer_backward_of(const struct scorer *scorer, struct op *op);
/* Seconds of one op alone, and of all ops of one pass. */
double layer_alone_s(const struct scorer *scorer, const struct op *op);
double layer_pass_s(const struct scorer *scorer, struct ops ops, enum op_pass pass);

/* search/partition/layer_edge.c - the cost of passing a tensor between operators. */

/* Adds an edge to each operator from every operator whose values it reads. The layer's input comes
 * from its own last operator, because all layers are alike. */
void layer_add_edges(const struct scorer *scorer, struct partition_problem *problem);

#endif
