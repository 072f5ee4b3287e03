/* exec/ops/piece.h - a layer, the embedding or the head of a chunk: its ops, its weights, and the
 * stores of their values and gradients. */
#ifndef EXEC_OPS_PIECE_H
#define EXEC_OPS_PIECE_H

#include "exec/ops/lifetime.h"
#include "exec/ops/saved.h"
#include "sim/plan/holding.h"
#include "sim/plan/weights.h"

struct store;

struct piece {
    int layer; /* index in the model, from 0; -1 for the embedding, the number of layers for the
                  head */
    const struct local_ops *ops;
    struct layer_dims dims; /* this rank's sizes for the layer's kind */
    int model_heads;        /* query heads of the layer over all ranks */
    const struct lifetimes *lifetimes;
    struct saved_layout saved;
    enum keeping keeping;
    /* KEEP_SOME: for each op of the forward, whether the backward recomputes it; and for each
     * value, the last of these recomputed ops that reads it */
    const bool *is_again;
    const struct last_reader *last_again;
    struct weights weights;
    struct store *own, *vocabulary; /* stores of its own and of vocabulary weights
                                       (exec/ops/store.h); NULL: none */
    size_t value_bytes;             /* bytes of one value */
};

/* The current addresses of an op's weight in a role, and of its gradient. NULL when the op has
 * none; the gradient is also NULL for a frozen weight. */
void *piece_value(const struct piece *piece, const struct op *op, enum weight_role role);
float *piece_gradient(const struct piece *piece, const struct op *op, enum weight_role role);

#endif
