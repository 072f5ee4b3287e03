/* exec/part.h - a layer, the embedding or the head of a chunk: its ops, its weights, and what holds
 * their values and gradients. */
#ifndef EXEC_PART_H
#define EXEC_PART_H

#include "exec/saved.h"
#include "sim/plan/weights.h"

struct store;

enum part_kind { PART_EMBEDDING, PART_LAYER, PART_HEAD };

struct part {
    enum part_kind kind;
    int layer; /* of the model, from 0; the embedding's is -1, the head's the number of layers */
    const struct local_ops *ops;
    const int *source; /* by backward op: the forward op that it belongs to */
    struct saved_layout saved;
    enum keeping keeping;
    struct weights weights;
    struct store *own, *vocabulary; /* what holds them (exec/store.h); NULL: it has none such */
    size_t value_bytes;             /* of one value */
};

/* The forward op of each backward op, by name. In the arena. */
const int *part_sources(const struct local_ops *ops, struct arena *arena);

/* Of the weight that op `name` uses, where its store has them now; NULL when it has none. */
void *part_value(const struct part *part, const char *name, enum weight_role role);
float *part_gradient(const struct part *part, const char *name, enum weight_role role);

#endif
