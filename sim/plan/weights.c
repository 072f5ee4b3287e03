#include "sim/plan/weights.h"

#include <string.h>

/* A list of weights under construction. */
struct builder {
    const struct plan *plan;
    const struct model *model;
    size_t tensor_rank;
    struct weights weights;
};

static struct weight *add(struct builder *b, const char *name, enum weight_role role, double rows,
                          double columns)
{
    struct weight *weight = &b->weights.at[b->weights.count++];
    *weight = (struct weight){
        .name = name,
        .role = role,
        .rows = (size_t)rows,
        .columns = (size_t)columns,
        .offset = b->weights.elements,
        .whole_rows = (size_t)rows,
        .whole_columns = (size_t)columns,
    };
    b->weights.elements += weight_elements(weight);
    return weight;
}

static void split_rows(const struct builder *b, struct weight *weight)
{
    size_t tp = (size_t)b->plan->tp;
    weight->whole_rows = weight->rows * tp;
    weight->first_row = weight->rows * b->tensor_rank;
    weight->is_split = tp > 1;
}

static void split_columns(const struct builder *b, struct weight *weight)
{
    size_t tp = (size_t)b->plan->tp;
    weight->whole_columns = weight->columns * tp;
    weight->first_column = weight->columns * b->tensor_rank;
    weight->is_split = tp > 1;
}

/* The bias of a row-parallel layer is added after the sum, so that every rank holds all of it. */
static void add_linear(struct builder *b, const struct op *op)
{
    struct weight *matrix = add(b, op->name, WEIGHT_MATRIX, op->n, op->k);
    if (op->column_parallel)
        split_rows(b, matrix);
    else
        split_columns(b, matrix);
    if (!op->has_bias)
        return;
    struct weight *bias = add(b, op->name, WEIGHT_BIAS, op->n, 1);
    if (op->column_parallel)
        split_rows(b, bias);
}

/* The norm of queries and keys has a scale for each, whatever the model's norm is. */
static void add_norm(struct builder *b, const struct op *op)
{
    bool of_heads = strcmp(op->name, "qk_norm") == 0;
    add(b, op->name, WEIGHT_SCALE, of_heads ? 2 : 1, op->n);
    if (!of_heads && b->model->norm == NORM_LAYER)
        add(b, op->name, WEIGHT_SHIFT, 1, op->n);
}

/* What was added last is rows of the vocabulary. */
static void move_to_vocabulary(struct builder *b)
{
    struct weight *weight = &b->weights.at[b->weights.count - 1];
    b->weights.elements = weight->offset;
    b->weights.vocabulary_elements = weight_elements(weight);
    weight->offset = 0;
    weight->is_vocabulary = true;
}

static void add_embedding(struct builder *b, const struct op *op)
{
    split_rows(b, add(b, op->name, WEIGHT_TABLE, op->k, op->n));
    move_to_vocabulary(b);
    if (b->model->positions == POSITION_LEARNED)
        add(b, op->name, WEIGHT_POSITIONS, b->model->max_positions, op->n);
}

struct weights weights_of(const struct ops *forward, const struct plan *plan,
                          const struct model *model, int tensor_rank, struct arena *arena)
{
    enum { MOST_EACH = 2 };
    struct builder b = { plan, model, (size_t)tensor_rank, { 0 } };
    b.weights.at = ARENA_ARRAY(arena, struct weight, (size_t)forward->count * MOST_EACH);
    for (int i = 0; i < forward->count; i++) {
        const struct op *op = &forward->at[i];
        if (op->kind == OP_GEMM)
            add_linear(&b, op);
        else if (op->kind == OP_NORM)
            add_norm(&b, op);
        else if (op->kind == OP_RESIDUAL && op->folded)
            add_norm(&b, op->folded);
        else if (op->kind == OP_EMBEDDING)
            add_embedding(&b, op);
        if (op->kind == OP_GEMM && strcmp(op->name, "logits") == 0)
            move_to_vocabulary(&b);
    }
    return b.weights;
}

const struct weight *weights_find(const struct weights *weights, const char *name,
                                  enum weight_role role)
{
    for (int i = 0; i < weights->count; i++)
        if (weights->at[i].role == role && strcmp(weights->at[i].name, name) == 0)
            return &weights->at[i];
    return NULL;
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
    if (weight->role != WEIGHT_SCALE && weight->role != WEIGHT_SHIFT)
        return false;
    return strcmp(weight->name, "qk_norm") == 0 ? plan->tp > 1 : plan->sp;
}
