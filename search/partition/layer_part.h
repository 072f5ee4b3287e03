/* search/partition/layer_part.h - what the parts of layer_partition_problem share; only layer.c,
 * layer_operator.c and layer_edge.c include it. */
#ifndef SEARCH_PARTITION_LAYER_PART_H
#define SEARCH_PARTITION_LAYER_PART_H

#include "models/layer.h"
#include "search/partition/layer.h"
#include "sim/cost/collective.h"

/* An operator: ops of the layer's list that stand or fall together. */
struct stretch {
    const char *name;
    int first, count;
    enum operator_role role;
};

/* What all operators of a layer are scored with. */
struct scorer {
    const struct layer_partition *of;
    struct arena *arena;
    struct layer_options options;
    enum attention_kernel attention;
    struct comm_group tensor;
    bool overlaps;
    double element_bytes;
    double hidden_bytes; /* S: hidden states of a microbatch */
    double state_bytes;  /* of a parameter on one rank */
    double in_flight;    /* microbatches whose activations a layer keeps */
    double num_microbatches;
    /* The layer's list as it is whole, split as Megatron does, and for a part of the tokens: op by
     * op the same ops. */
    struct ops whole, hidden, sequence;
    struct stretch stretches[MAX_OPERATORS];
    int num_stretches;
};

/* search/partition/layer_operator.c - the layer's operators, and what each takes by itself. */

/* Fills the lists, the hidden states' bytes and the stretches. */
void layer_find_operators(struct scorer *scorer);
void layer_add_operator(const struct scorer *scorer, int index, struct partition_operator *out);
/* Values that it hands on, all ranks together; attention's are those that the projection reads. */
double layer_output_bytes(const struct scorer *scorer, int index);

/* One rank's part of a linear layer. Megatron's split where it splits the same side, as it knows
 * how many heads have keys of their own; else an equal part. */
bool layer_is_linear(const struct scorer *scorer, int index);
struct op layer_product_of(const struct scorer *scorer, int index, enum sharding sharding);
struct ops layer_backward_of(const struct scorer *scorer, struct op *op);
/* Seconds of an op with nothing beside it, and of all of one pass. */
double layer_alone_s(const struct scorer *scorer, const struct op *op);
double layer_pass_s(const struct scorer *scorer, struct ops ops, enum op_pass pass);

/* search/partition/layer_edge.c - what it takes to hand a tensor on. */

/* To each operator from those whose values it reads: the layer's own input is the last one's, as
 * the layer before is alike. */
void layer_add_edges(const struct scorer *scorer, struct partition_problem *problem);

#endif
