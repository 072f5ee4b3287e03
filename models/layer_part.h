/* models/layer_part.h - how the op lists of layer.h are built; only their sources include it.
 *
 * Every add_... appends one op that waits for the one before, reads the current value and makes its
 * output the current value. */
#ifndef MODELS_LAYER_PART_H
#define MODELS_LAYER_PART_H

#include "models/layer.h"

/* A list under construction, and what its ops share. */
struct builder {
    const struct model *model;
    const struct layer_dims *dims;
    const struct layer_options *options;
    double element_bytes; /* of an activation */
    struct arena *arena;
    struct ops ops;
    int value;             /* at hand */
    enum op_region region; /* of the ops that are added */
    int stream;            /* the residual stream; NO_ID: the list has none */
    short draws;
};

/* Bytes of an element that is not quantised. */
double layer_element_bytes(const struct layer_options *options);

/* An empty list in the arena, with room for a block. */
struct builder layer_begin(const struct model *model, const struct layer_dims *dims,
                           const struct layer_options *options, struct arena *arena);
bool is_fused(const struct builder *b, enum fusion fusion);
/* Sets the cost of an op of `values` values, forward and backward, when several kernels do it. */
void set_unfused(const struct builder *b, struct op *op, enum unfused_op unfused, double values);

/* Adds an input of the list, `rows` of `width`, and makes it the current value. */
int add_input(struct builder *b, double rows, double width);
/* Adds a further output of the op; keep_output also keeps it for the backward. */
int add_output(struct builder *b, struct op *op, enum value_form form, double bytes);
void keep_output(struct builder *b, struct op *op, enum value_form form, double bytes);
/* The op keeps a value that it reads, as it was before the mark in between. */
void keep(struct builder *b, struct op *op, int value);
void keep_input(struct builder *b, struct op *op); /* the first */
struct op_weight *add_weight(struct builder *b, struct op *op, enum weight_role role, double rows,
                             double columns);

/* An op that reads the current value and has no output yet. */
struct op *add_reader(struct builder *b, enum op_kind kind, const char *name, double m, double n);
/* An op with an output of m x n values, and neither FLOPs nor bytes yet. */
struct op *add_op(struct builder *b, enum op_kind kind, const char *name, double m, double n);
/* The same in place: the output overwrites m x n values of the input. */
struct op *add_op_in_place(struct builder *b, enum op_kind kind, const char *name, double m,
                           double n);

struct op *add_norm(struct builder *b, const char *name, double rows, double width);
/* A norm of each head of the current queries and keys. */
void add_head_norm(struct builder *b, const char *name);

/* Dropout, with the bias that the product before left to it, then the sum with the residual stream,
 * if any, which becomes the new stream. */
void add_residual(struct builder *b, const char *name);

/* Around a part of a block, which takes the stream and gives what is added to it: norms before it,
 * after it or both, and the residual. */
void begin_part(struct builder *b, const char *norm);
void end_part(struct builder *b, const char *norm, const char *residual);

/* A linear layer. When its columns are split it yields partial sums, and the bias is left to the op
 * that reads the sum. */
struct linear {
    const char *name;
    double rows;    /* 0: the tokens */
    double out, in; /* widths on this rank */
    double groups;  /* experts with a matrix and their share of the rows each; 0: not of experts */
    enum weight_split split;
    enum weight_summed summed;
    bool has_bias;
    double matrices[MAX_MATRICES]; /* as in struct op */
};
/* add_gemm: a product in the list's dtype. add_linear: a linear layer of a block, quantised when
 * there is a recipe, with a 16-bit output. */
struct op *add_gemm(struct builder *b, const struct linear *linear);
void add_linear(struct builder *b, const struct linear *linear);

/* Quantises the input of the next product; does nothing without a recipe. */
void add_quantize(struct builder *b, const char *name, double rows, double width);

/* Marks where tokens enter or leave the tensor-parallel region. add_mark: for rows of `width` as
 * they are; the others: around a block's linear layers, quantised when those are.
 * add_quantized_enter: what enters was quantised before. */
struct op *add_mark(struct builder *b, enum op_kind kind, const char *name, double width);
void add_enter(struct builder *b, const char *name, const char *quantize_name, double width);
void add_quantized_enter(struct builder *b, const char *name, double width);
void add_leave(struct builder *b, const char *name);

/* Two linear layers around the activation, in the tensor region; the names of their ops. */
struct feed_forward {
    const char *enter, *input, *fc1, *activation, *middle, *fc2, *leave;
    double width; /* on this rank */
    bool has_bias;
};
struct op *add_activation(struct builder *b, const char *name, double rows, double width);
void add_feed_forward(struct builder *b, const struct feed_forward *of);

/* Latent attention's heads from hidden rows; then the core's input is at hand (latent.c). */
void add_latent_heads(struct builder *b);

/* A block that reads the value at hand. */
void layer_add_block(struct builder *b);

/* The two halves of a block (attention.c; feed_forward.c or experts.c). */
void add_attention_block(struct builder *b);
void add_feed_forward_block(struct builder *b);
void add_expert_block(struct builder *b);

#endif
