/* sim/textbook/memory.h - bytes of training state and activations by the formulas of lectures
 * (docs/lecture.md) and papers.
 *
 * State is the memory per parameter; it does not depend on the batch. Activations are the values of
 * the forward that the backward needs. Every function is pure. */
#ifndef SIM_TEXTBOOK_MEMORY_H
#define SIM_TEXTBOOK_MEMORY_H

#include "sim/textbook/work.h"

/* Bytes per parameter. Add a recipe to `textbook_recipes` in memory.c. */
struct textbook_recipe {
    const char *name;       /* "bf16" */
    const char *summary;    /* one sentence: the type of each part */
    double parameter_bytes; /* of the weight that forward and backward read */
    double gradient_bytes;  /* of the gradient into which the backward accumulates */
    double optimizer_bytes; /* of master weights and moments, which ZeRO-1 shards */
};
extern const struct textbook_recipe textbook_recipes[];
extern const int num_textbook_recipes;

/* Bytes of state on one rank, by part. */
struct textbook_state {
    double weights_bytes;
    double gradients_bytes;
    double optimizer_bytes;
};

/* State of `parameters` on one of `num_ranks` data-parallel ranks. ZeRO stage 0 shards nothing, 1
 * the optimizer, 2 also gradients, 3 also weights. */
struct textbook_state textbook_state(const struct textbook_recipe *recipe, double parameters,
                                     int zero, int num_ranks);
double textbook_state_bytes(const struct textbook_state *state); /* the sum of its parts */

/* The number of parameters whose state fills `memory_bytes`, without activations. */
double textbook_largest_model(double memory_bytes, double bytes_per_parameter);

/* Formulas of the lectures (docs/lecture.md). The first gives the number of values (not bytes) that
 * one batch's forward keeps for the backward, the second the bytes of fp32 training, the third the
 * bytes on one data-parallel rank in half precision. */
double textbook_activation_values(const struct model *model, struct textbook_batch batch);
double textbook_training_bytes(const struct model *model, struct textbook_batch batch);
double textbook_data_parallel_bytes(double parameters, double values_per_sequence,
                                    double sequences_per_rank);
/* Bytes of the gradients that each data-parallel rank all-reduces. */
double textbook_data_parallel_traffic_bytes(double parameters);

/* Which activations a layer keeps. */
enum textbook_keep {
    TEXTBOOK_KEEP_ALL,      /* all activations, with or without tensor parallelism */
    TEXTBOOK_KEEP_SEQUENCE, /* all activations, with tensor and sequence parallelism */
    /* all except attention's core, which is recomputed; FlashAttention keeps the same */
    TEXTBOOK_KEEP_SELECTIVE,
    TEXTBOOK_KEEP_SEQUENCE_SELECTIVE, /* all except attention's core, with sequence parallelism */
    TEXTBOOK_KEEP_INPUT,              /* only the layer's input */
    TEXTBOOK_KEEP_SEQUENCE_INPUT,     /* only the layer's input, sharded by sequence parallelism */
    NUM_TEXTBOOK_KEEPS
};
/* The value for a layer of which only the input is kept, sharded by sequence parallelism if the
 * activations of `keep` are. */
enum textbook_keep textbook_keep_input(enum textbook_keep keep);

/* Coefficients of a microbatch's bytes: s b h (whole + (split + attention a s / h) / t), with
 * sequence s, microbatch b, width h, a heads and t tensor ranks. */
struct textbook_kept {
    double whole_bytes, split_bytes, attention_bytes;
};
struct textbook_kept textbook_kept(enum textbook_keep keep, double value_bytes);

/* Activation bytes of one layer and microbatch on one of `tensor` ranks, at `value_bytes` per
 * value: 2 in half precision. */
double textbook_layer_activation_bytes(const struct model *model, enum textbook_keep keep,
                                       int tensor, struct textbook_batch microbatch,
                                       double value_bytes);

/* textbook_checkpointed_layers: memory in units of one layer's activations, if the input of one in
 * `interval` layers is kept: one unit per kept input, and the layers of one recomputed interval.
 * textbook_best_interval: the interval that needs the least memory. */
double textbook_checkpointed_layers(double num_layers, double interval);
double textbook_best_interval(double num_layers);

#endif
