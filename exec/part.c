#include "exec/part.h"

#include "exec/store.h"

#include <string.h>

/* Or the one that it is folded into. */
static int find_op(const struct ops *forward, const char *name)
{
    for (int i = 0; i < forward->count; i++)
        if (strcmp(forward->at[i].name, name) == 0 ||
            (forward->at[i].folded && strcmp(forward->at[i].folded->name, name) == 0))
            return i;
    return -1;
}

/* A collective of the backward may stand for a mark that the forward left out: without sequence
 * parallelism entering a region is free, and its backward a sum. Nobody asks for its source. */
const int *part_sources(const struct local_ops *ops, struct arena *arena)
{
    int *source = ARENA_ARRAY(arena, int, (size_t)ops->backward.count);
    for (int i = 0; i < ops->backward.count; i++)
        source[i] = find_op(&ops->forward, ops->backward.at[i].name);
    return source;
}

static const struct store *store_of(const struct part *part, const struct weight *weight)
{
    return weight->is_vocabulary ? part->vocabulary : part->own;
}

void *part_value(const struct part *part, const char *name, enum weight_role role)
{
    const struct weight *weight = weights_find(&part->weights, name, role);
    if (!weight)
        return NULL;
    return (char *)store_of(part, weight)->values + weight->offset * part->value_bytes;
}

float *part_gradient(const struct part *part, const char *name, enum weight_role role)
{
    const struct weight *weight = weights_find(&part->weights, name, role);
    return weight ? store_of(part, weight)->gradients + weight->offset : NULL;
}
