#include "exec/ops/piece.h"

#include "exec/ops/store.h"

static const struct store *store_of(const struct piece *piece, const struct weight *weight)
{
    return weight->of->is_vocabulary ? piece->vocabulary : piece->own;
}

static const struct weight *weight_of(const struct piece *piece, const struct op *op,
                                      enum weight_role role)
{
    for (int i = 0; i < op->weights.count; i++)
        if (piece->weights.at[op->weights.at[i]].of->role == role)
            return &piece->weights.at[op->weights.at[i]];
    return NULL;
}

void *piece_value(const struct piece *piece, const struct op *op, enum weight_role role)
{
    const struct weight *weight = weight_of(piece, op, role);
    if (!weight)
        return NULL;
    return (char *)store_of(piece, weight)->values + weight->offset * piece->value_bytes;
}

float *piece_gradient(const struct piece *piece, const struct op *op, enum weight_role role)
{
    const struct weight *weight = weight_of(piece, op, role);
    if (!weight || weight->of->is_frozen)
        return NULL;
    return store_of(piece, weight)->gradients + weight->offset;
}
