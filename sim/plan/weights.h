/* sim/plan/weights.h - the parameters that one rank holds, read off the op lists.
 *
 * A part is a layer, the embedding or the head of a chunk; its weights lie one behind the other in
 * a flat array of elements, in the order of the ops that use them. The rows of the vocabulary,
 * token table or output matrix, are an array of their own, which is the same whether the first
 * stage or the last holds it: tied ones are one array, or two that are kept equal. A linear layer's
 * matrix has a row for each output; those of fused layers are packed (kernels/host/attention.h,
 * activation.h) so that a tensor rank's are neighbours. Where a weight is split over tensor ranks,
 * this rank's elements have a place in the whole, which seeds, checkpoints and other layouts share.
 */
#ifndef SIM_PLAN_WEIGHTS_H
#define SIM_PLAN_WEIGHTS_H

#include "base/arena.h"
#include "sim/plan/local.h"

#include <stddef.h>

enum weight_role {
    WEIGHT_MATRIX, /* of a linear layer */
    WEIGHT_BIAS,
    WEIGHT_SCALE, /* of a norm */
    WEIGHT_SHIFT,
    WEIGHT_TABLE, /* token embedding */
    WEIGHT_POSITIONS,
};

struct weight {
    const char *name; /* of its op: "qkv" */
    enum weight_role role;
    size_t rows, columns; /* held by this rank */
    size_t offset;        /* elements into the part's array, or into that of the vocabulary */
    size_t whole_rows, whole_columns;
    size_t first_row, first_column; /* of the whole, that this rank's begin at */
    bool is_split;                  /* over tensor ranks; else all of them hold the same */
    bool is_vocabulary;             /* lies in the array of the vocabulary */
};

struct weights {
    struct weight *at;
    int count;
    size_t elements;            /* of the part's array */
    size_t vocabulary_elements; /* of that of the vocabulary; 0: the part needs none */
};

/* What a part's forward ops multiply, normalise and look up with. In the arena. */
struct weights weights_of(const struct ops *forward, const struct plan *plan,
                          const struct model *model, int tensor_rank, struct arena *arena);

/* NULL when the part has none of that name and role. */
const struct weight *weights_find(const struct weights *weights, const char *name,
                                  enum weight_role role);

/* Held by this rank. */
size_t weight_elements(const struct weight *weight);

/* Index in the whole weight, row by row, of element `i` of those held. */
size_t weight_whole_index(const struct weight *weight, size_t i);

/* Whether a rank's gradient is one summand of several tensor ranks: norms see a slice of the tokens
 * under sequence parallelism, the norm of queries and keys sees its own heads. */
bool weight_is_partial(const struct weight *weight, const struct plan *plan);

#endif
