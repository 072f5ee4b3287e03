/* models/layer_part.h - what the op lists of layer.h are put together from; only their sources
 * include it.
 *
 * Every add_... appends one op that waits for the one before it, reads the value at hand and puts
 * what it makes in its place. */
#ifndef MODELS_LAYER_PART_H
#define MODELS_LAYER_PART_H

#include "models/layer.h"

/* A list under construction and what its ops have in common. */
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

/* Of a value that is not quantised. */
double layer_element_bytes(const struct layer_options *options);

/* An empty list in the arena, with room for a block. */
struct builder layer_begin(const struct model *model, const struct layer_dims *dims,
                           const struct layer_options *options, struct arena *arena);
bool is_fused(const struct builder *b, enum fusion fusion);
/* Gives an op of so many values, forward and backward, what several kernels take. */
void set_unfused(const struct builder *b, struct op *op, enum unfused_op unfused, double values);

/* A value that no op of the list makes: of `rows` of `width`, at hand from now on. */
int add_input(struct builder *b, double rows, double width);
/* Another value that an op makes, and one that it keeps of its own making. */
int add_output(struct builder *b, struct op *op, enum value_form form, double bytes);
void keep_output(struct builder *b, struct op *op, enum value_form form, double bytes);
/* The op keeps a value that it reads: as it was before the mark that it came through. */
void keep(struct builder *b, struct op *op, int value);
void keep_input(struct builder *b, struct op *op); /* the first */
struct op_weight *add_weight(struct builder *b, struct op *op, enum weight_role role, double rows,
                             double columns);

/* Reads the value at hand and makes none yet. */
struct op *add_reader(struct builder *b, enum op_kind kind, const char *name, double m, double n);
/* Of m x n values, with neither FLOPs nor bytes yet. */
struct op *add_op(struct builder *b, enum op_kind kind, const char *name, double m, double n);
/* What it makes lies where its input was, of which it changes m x n values. */
struct op *add_op_in_place(struct builder *b, enum op_kind kind, const char *name, double m,
                           double n);

struct op *add_norm(struct builder *b, const char *name, double rows, double width);
/* Of each head of the queries and keys at hand. */
void add_head_norm(struct builder *b, const char *name);

/* Dropout, and the bias that the product before left to it; the sum with the residual stream, if
 * there is one, is the stream from now on. */
void add_residual(struct builder *b, const char *name);

/* A linear layer. One whose columns are split makes partial sums, and leaves its bias to the op
 * that reads the whole. */
struct linear {
    const char *name;
    double out, in; /* widths on this rank */
    enum weight_split split;
    bool has_bias;
    double matrices[MAX_MATRICES]; /* as in struct op */
};
/* A product in the list's dtype; and one of a block's linear layers, quantised where a recipe
 * says so, its output staying in 16 bits. */
struct op *add_gemm(struct builder *b, const struct linear *linear);
void add_linear(struct builder *b, const struct linear *linear);

/* What comes next multiplies what is quantised; nothing without a recipe. */
void add_quantize(struct builder *b, const char *name, double rows, double width);

/* Where tokens enter and leave the tensor-parallel region: of the hidden states as they are, and
 * around the linear layers of a block, quantised where they are. */
struct op *add_mark(struct builder *b, enum op_kind kind, const char *name);
void add_enter(struct builder *b, const char *name, const char *quantize_name);
void add_leave(struct builder *b, const char *name);

/* The two halves of a block (attention.c, feed_forward.c). */
void add_attention_block(struct builder *b);
void add_feed_forward_block(struct builder *b);

#endif
