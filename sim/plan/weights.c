/* Lists the weights that one rank holds, with their places in the whole weights. */
#include "sim/plan/weights.h"

static struct weight weight_of(const struct op_weight *of, struct rank_share share,
                               size_t tensor_rank)
{
    size_t tp = (size_t)share.tp, rows = (size_t)of->rows, columns = (size_t)of->columns;
    struct weight weight = { .of = of,
                             .rows = rows,
                             .columns = columns,
                             .whole_rows = rows,
                             .whole_columns = columns,
                             .is_split = of->split != SPLIT_NONE && tp > 1 };
    if (of->split == SPLIT_ROWS) {
        weight.whole_rows = rows * tp;
        weight.first_row = rows * tensor_rank;
    }
    if (of->split == SPLIT_COLUMNS) {
        weight.whole_columns = columns * tp;
        weight.first_column = columns * tensor_rank;
    }
    return weight;
}

struct weights weights_of(const struct ops *list, struct rank_share share, int tensor_rank,
                          struct arena *arena)
{
    const struct operands *operands = list->operands;
    struct weights weights = { .count = operands->num_weights };
    weights.at = ARENA_ARRAY(arena, struct weight, (size_t)weights.count);
    for (int i = 0; i < weights.count; i++) {
        struct weight *weight = &weights.at[i];
        *weight = weight_of(&operands->weights[i], share, (size_t)tensor_rank);
        size_t *end = weight->of->is_vocabulary ? &weights.vocabulary_elements : &weights.elements;
        weight->offset = *end;
        *end += weight_elements(weight);
    }
    return weights;
}

size_t weight_elements(const struct weight *weight)
{
    return weight->rows * weight->columns;
}

size_t weight_whole_index(const struct weight *weight, size_t i)
{
    size_t row = weight->first_row + i / weight->columns;
    return row * weight->whole_columns + weight->first_column + i % weight->columns;
}

bool weight_is_partial(const struct weight *weight, const struct plan *plan)
{
    switch (weight->of->summed) {
    case SUMMED_OVER_TOKENS:
        return plan->sp;
    case SUMMED_OVER_HEADS:
        return plan->tp > 1;
    case SUMMED_NEVER:
        break;
    }
    return false;
}
