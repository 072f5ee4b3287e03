#include "exec/part.h"

#include "exec/store.h"

static const struct store *store_of(const struct part *part, const struct weight *weight)
{
    return weight->of->is_vocabulary ? part->vocabulary : part->own;
}

static const struct weight *weight_of(const struct part *part, const struct op *op,
                                      enum weight_role role)
{
    for (int i = 0; i < op->weights.count; i++)
        if (part->weights.at[op->weights.at[i]].of->role == role)
            return &part->weights.at[op->weights.at[i]];
    return NULL;
}

void *part_value(const struct part *part, const struct op *op, enum weight_role role)
{
    const struct weight *weight = weight_of(part, op, role);
    if (!weight)
        return NULL;
    return (char *)store_of(part, weight)->values + weight->offset * part->value_bytes;
}

float *part_gradient(const struct part *part, const struct op *op, enum weight_role role)
{
    const struct weight *weight = weight_of(part, op, role);
    if (!weight || weight->of->is_frozen)
        return NULL;
    return store_of(part, weight)->gradients + weight->offset;
}
