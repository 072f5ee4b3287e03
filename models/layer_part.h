/* models/layer_part.h - functions that build the op lists of layer.h. Only the files that build op
 * lists include it.
 *
 * Every add_... function appends one op, which waits for the previous op. The op reads the current
 * value, and its output becomes the current value. */
#ifndef MODELS_LAYER_PART_H
#define MODELS_LAYER_PART_H

#include "models/layer.h"
#include "models/trainable.h"

/* An op list under construction, and the settings that its ops share. */
struct builder {
    const struct model *model;
    const struct layer_dims *dims;
    const struct layer_options *options;
    double element_bytes; /* bytes of an activation's element */
    struct arena *arena;
    struct ops ops;
    enum weight_place place; /* place of the weights that are added */
    int value;               /* the current value */
    enum op_region region;   /* region (enum op_region: module of the block) of the ops that are
                                added */
    int stream;              /* the residual stream; NO_ID: the list has none */
    int entered;             /* a block's input */
    int normed;              /* a block's input after its first norm; NO_ID: not computed yet */
    int branch; /* the output of the block's first half, if the residual of the second half adds it;
                   else NO_ID */
    short draws;
};

/* Bytes of an element that is not quantised. */
double layer_element_bytes(const struct layer_options *options);

/* Starts an empty list in the arena, with space for one block's ops. */
struct builder layer_begin(const struct model *model, const struct layer_dims *dims,
                           const struct layer_options *options, struct arena *arena);
bool is_fused(const struct builder *b, enum fusion fusion);
/* Sets the forward and backward cost of an op over `values` values that runs as several kernels. */
void set_unfused(const struct builder *b, struct op *op, enum unfused_op unfused, double values);

/* Adds an input of the list, `rows` of `width`, and makes it the current value. */
int add_input(struct builder *b, double rows, double width);
/* Adds a further output of the op; keep_output also keeps it for the backward. */
int add_output(struct builder *b, struct op *op, enum value_form form, double bytes);
void keep_output(struct builder *b, struct op *op, enum value_form form, double bytes);
/* Whether products in the region keep gathered inputs for the backward. A shared expert that
 * overlaps the exchanges of rows does: Megatron Core gathers its input before its first product
 * (moe/shared_experts.py, pre_forward_comm), which then keeps what it reads. */
bool region_keeps_gathered(const struct layer_options *options, enum op_region region);
/* Makes the op keep, for its backward, a value that it reads. If a mark (a placeholder for a
 * collective) made the value, the op keeps the mark's input instead, unless gathered inputs are
 * kept. */
void keep(struct builder *b, struct op *op, int value);
void keep_input(struct builder *b, struct op *op); /* keeps the op's first input */
/* If there is a recipe (quantised linear layers), keeps a 16-bit value for the backward in another
 * type; returns the bytes that are written for this, or 0. */
double store_as(struct builder *b, int value, enum storage storage);
struct op_weight *add_weight(struct builder *b, struct op *op, enum weight_role role, double rows,
                             double columns);

/* Adds an op that reads the current value and has no output yet. */
struct op *add_reader(struct builder *b, enum op_kind kind, const char *name, double m, double n);
/* Adds an op with an output of m x n values, whose FLOPs and bytes are still 0. */
struct op *add_op(struct builder *b, enum op_kind kind, const char *name, double m, double n);
/* Like add_op, but in place: the output overwrites m x n values of the input. */
struct op *add_op_in_place(struct builder *b, enum op_kind kind, const char *name, double m,
                           double n);

struct op *add_norm(struct builder *b, const char *name, double rows, double width);
/* A norm of another kind than the model's. */
struct op *add_norm_of(struct builder *b, enum norm_kind kind, const char *name, double rows,
                       double width);
/* Adds a norm of each head of the current queries and keys. */
void add_head_norm(struct builder *b, const char *name);

/* Adds the bias that the previous product left to its reader, if any, then dropout, then the sum
 * with the residual stream, if any. The result is the new stream. */
void add_residual(struct builder *b, const char *name);

/* Called before and after a half of a block (attention or feed-forward). They add the norms before
 * it, after it or both, and the residual. stands_alone: the norm is never fused with the linear
 * layer that reads it. The recompute module `layernorm` repeats only norms that are not fused in
 * this way (Megatron Core, models/gpt/gpt_layer_specs.py: Transformer Engine's LayerNormLinear). */
void begin_part(struct builder *b, const char *norm, bool stands_alone);
void end_part(struct builder *b, const char *norm, const char *residual);

/* A linear layer. If tensor ranks split its inputs, it yields partial sums, and the op that reads
 * their total adds the bias. */
struct linear {
    const char *name;
    double rows;    /* 0: one row per token */
    double out, in; /* widths on this rank */
    double groups;  /* number of experts; each has its own matrix and its part of the rows. 0: no
                       experts */
    enum weight_split split;
    enum weight_summed summed;
    bool has_bias;
    double matrices[MAX_MATRICES]; /* as in struct op */
};
/* add_gemm adds a product in the list's dtype. add_linear adds a linear layer of a block, quantised
 * if the options have a recipe, with a 16-bit output. */
struct op *add_gemm(struct builder *b, const struct linear *linear);
void add_linear(struct builder *b, const struct linear *linear);

/* Adds an op that quantises the next product's input; does nothing without a recipe. */
void add_quantize(struct builder *b, const char *name, double rows, double width);

/* Marks where tokens enter or leave the tensor-parallel region. add_mark: for rows of `width` that
 * are not quantised. The other marks stand around a block's linear layers and quantise if the
 * layers do. add_quantized_enter: the rows were quantised before the mark. */
struct op *add_mark(struct builder *b, enum op_kind kind, const char *name, double width);
void add_enter(struct builder *b, const char *name, const char *quantize_name, double width);
void add_quantized_enter(struct builder *b, const char *name, double width);
void add_leave(struct builder *b, const char *name);

/* Two linear layers around an activation, inside the tensor-parallel region: the names of their
 * ops, and the width. */
struct feed_forward {
    const char *enter, *input, *fc1, *activation, *middle, *fc2, *leave;
    double width; /* on this rank */
    bool has_bias;
};
struct op *add_activation(struct builder *b, const char *name, double rows, double width);
void add_feed_forward(struct builder *b, const struct feed_forward *of);

/* Makes latent attention's heads from hidden rows; the current value is then the attention core's
 * input (latent.c). `from` gets the ids of the hidden rows and of the rows from which queries are
 * projected, both as products read them before they enter the tensor-parallel region. */
struct latent_rows {
    int hidden, queries;
};
void add_latent_heads(struct builder *b, struct latent_rows *from);

/* Sparse attention's indexer (indexer.c). add_indexer: scores all earlier keys and chooses
 * index_topk of them for each token. add_index_loss: trains it towards the probabilities that
 * attention gave to the chosen keys; `heads` are the attention core's queries, keys and values. The
 * current value does not change. */
struct indexer {
    int rows;    /* value with the queries, keys and head weights of the indexer */
    int chosen;  /* the chosen keys, one list for all heads */
    double keys; /* average number of keys chosen for a token, times 2 as attended_keys() */
};
struct indexer add_indexer(struct builder *b, const struct latent_rows *from);
void add_index_loss(struct builder *b, const struct indexer *indexer, int heads);

/* What attention reads besides the current value, which has the queries and, unless is_apart, the
 * keys and values of the same tokens. Ids may be NO_ID. */
struct attention_inputs {
    int relative_keys;      /* the keys of distances */
    int keys, values;       /* if is_apart: may be one value */
    int chosen;             /* the keys that an indexer chose */
    bool is_apart;          /* keys and values are other values than the queries */
    bool is_other_sequence; /* keys are of another sequence, all of which every token sees */
    bool has_bias;          /* a bias for each head, query and key is added to the scores */
};
/* Adds attention from projected queries, keys and values to its output (attention_core.c). */
void add_attention_core(struct builder *b, const struct attention_inputs *inputs);

/* Twice the average number of keys that a token sees, so that causal attention over s keys gives s
 * (attention_core.c). In a window w the token at position t sees min(t, w) keys. */
double keys_in_window(double keys, double window);

/* Adds a whole block, which reads the current value. */
void layer_add_block(struct builder *b);

/* The two halves of a block. add_mixer_block (mixers.c) adds the first half of any kind of block,
 * and calls add_attention_block (attention.c) for those with attention. */
void add_mixer_block(struct builder *b);
void add_attention_block(struct builder *b);
void add_feed_forward_block(struct builder *b);
void add_expert_block(struct builder *b);

#endif
