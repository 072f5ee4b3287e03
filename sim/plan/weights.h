/* sim/plan/weights.h - the parameters that one rank holds, derived from the op lists (sequences of
 * operations).
 *
 * A piece is a layer, the embedding or the head of a chunk. Its weights lie one after the other in
 * a flat array, in the order of the ops that use them. The vocabulary rows (token table or output
 * matrix) are a separate array, the same on the first and the last stage: tied tables are one
 * array, or two that are kept equal. A linear layer's matrix has a row per output; rows of fused
 * layers are packed (kernels/host/attention.h, activation.h) so that a tensor rank's rows are
 * neighbours. When a weight is split over tensor ranks, `first_row` and `first_column` place this
 * rank's elements in the whole weight, to whose elements random seeds and checkpoints refer,
 * whatever the layout. */
#ifndef SIM_PLAN_WEIGHTS_H
#define SIM_PLAN_WEIGHTS_H

#include "base/arena.h"
#include "sim/plan/local.h"

#include <stddef.h>

struct weight {
    /* the weight in the op list, with its role and the name of its layer */
    const struct op_weight *of;
    size_t rows, columns; /* held by this rank */
    size_t offset;        /* in elements, within the piece's array or the vocabulary's array */
    size_t whole_rows, whole_columns;
    size_t first_row, first_column; /* where this rank's elements begin in the whole weight */
    /* split over tensor ranks; if false, all of them hold the same elements */
    bool is_split;
};

struct weights {
    struct weight *at; /* indexed by the list's weight ids */
    int count;
    size_t elements;            /* length of the piece's array */
    size_t vocabulary_elements; /* length of the vocabulary's array; 0: the piece uses none */
};

/* The weights that the ops of a list refer to. The array is in the arena. */
struct weights weights_of(const struct ops *list, struct rank_share share, int tensor_rank,
                          struct arena *arena);

/* Elements that this rank holds. */
size_t weight_elements(const struct weight *weight);

/* Index of held element `i` in the whole weight, row by row. */
size_t weight_whole_index(const struct weight *weight, size_t i);

/* Whether the weight's gradient must be summed over tensor ranks. */
bool weight_is_partial(const struct weight *weight, const struct plan *plan);

#endif
