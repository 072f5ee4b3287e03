/* models/layer_part.h - what the op lists of layer.h are put together from; only their sources
 * include it.
 *
 * Every add_... appends one op that waits for the one before it. */
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
};

/* Of a value that is not quantised. */
double layer_element_bytes(const struct layer_options *options);

/* An empty list in the arena, with room for a block. */
struct builder layer_begin(const struct model *model, const struct layer_dims *dims,
                           const struct layer_options *options, struct arena *arena);
bool is_fused(const struct builder *b, enum fusion fusion);

/* Of m x n values, with neither FLOPs nor bytes yet. */
struct op *add_op(struct builder *b, enum op_kind kind, const char *name, double m, double n);

/* Folds the op that was added last into the one before it, which writes its output too. */
void fold_last(struct builder *b, const char *variant);

void add_norm(struct builder *b, const char *name, double rows, double width);
/* Of the residual stream, whose gradient it may add to its own. */
void add_stream_norm(struct builder *b, const char *name);

/* Bias, dropout, add to the residual stream. */
void add_residual(struct builder *b, const char *name, bool bias);

/* A product in the list's dtype; and one of a block's linear layers, which is in fp8 where a recipe
 * says so, its output staying in 16 bits. */
struct op *add_gemm(struct builder *b, const char *name, double width_out, double width_in,
                    bool column_parallel, bool bias);
void add_linear(struct builder *b, const char *name, double width_out, double width_in,
                bool column_parallel, bool bias);

/* What comes next multiplies in fp8; nothing without a recipe. */
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
