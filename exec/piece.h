/* exec/piece.h - a layer, the embedding or the head of a chunk: its ops, its weights, and what
 * holds their values and gradients. */
#ifndef EXEC_PIECE_H
#define EXEC_PIECE_H

#include "exec/lifetime.h"
#include "exec/saved.h"
#include "sim/plan/holding.h"
#include "sim/plan/weights.h"

struct store;

struct piece {
    int layer; /* of the model, from 0; the embedding's is -1, the head's the number of layers */
    const struct local_ops *ops;
    struct layer_dims dims; /* this rank's, of the layer's kind */
    int model_heads;        /* query heads of such a layer on all ranks */
    const struct lifetimes *lifetimes;
    struct saved_layout saved;
    enum keeping keeping;
    struct weights weights;
    struct store *own, *vocabulary; /* what holds them (exec/store.h); NULL: it has none such */
    size_t value_bytes;             /* of one value */
};

/* The weight of a role that an op names, where its store has it now, and its gradient; NULL when
 * the op names none, and the gradient of one that is frozen. */
void *piece_value(const struct piece *piece, const struct op *op, enum weight_role role);
float *piece_gradient(const struct piece *piece, const struct op *op, enum weight_role role);

#endif
