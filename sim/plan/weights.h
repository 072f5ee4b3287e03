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

struct weight {
    const struct op_weight *of; /* of the list: its role, and the name of its layer */
    size_t rows, columns;       /* held by this rank */
    size_t offset;              /* elements into the part's array, or into that of the vocabulary */
    size_t whole_rows, whole_columns;
    size_t first_row, first_column; /* of the whole, that this rank's begin at */
    bool is_split;                  /* over tensor ranks; else all of them hold the same */
};

struct weights {
    struct weight *at; /* by the list's ids */
    int count;
    size_t elements;            /* of the part's array */
    size_t vocabulary_elements; /* of that of the vocabulary; 0: the part needs none */
};

/* What the ops of a list name. In the arena. */
struct weights weights_of(const struct ops *list, struct rank_share share, int tensor_rank,
                          struct arena *arena);

/* Held by this rank. */
size_t weight_elements(const struct weight *weight);

/* Index in the whole weight, row by row, of element `i` of those held. */
size_t weight_whole_index(const struct weight *weight, size_t i);

/* Whether a rank's gradient is one summand of several tensor ranks. */
bool weight_is_partial(const struct weight *weight, const struct plan *plan);

#endif
