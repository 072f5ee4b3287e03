/* A module that predicts later tokens (DeepSeek-AI 2024, DeepSeek-V3, 2.2): it normalises the
 * current rows and the next tokens' embedding, concatenates both, projects them back to the model's
 * width, and ends with a block like the model's last.
 *
 * The embedding before it, and the norm, the head and the loss after it, are the model's usual
 * lists (embedding.c, head.c). Tensor ranks split the projection by columns and join its output;
 * under sequence parallelism each rank then takes its own rows (Megatron Core,
 * transformer/multi_token_prediction.py). */
#include "models/layer_part.h"

/* Gathers the columns. A rank's own rows are a view of the gathered tensor, so an op that keeps
 * these rows keeps the whole tensor (tensor_parallel/mappings.py, _split_along_first_dim). */
static void add_joined_columns(struct builder *b)
{
    add_mark(b, OP_TENSOR_JOIN, "later_join", b->dims->hidden);
}

/* Concatenates the current rows and the embedding's rows. The backward copies each one's part of
 * the gradient. */
static void add_join(struct builder *b, int embedded)
{
    const struct layer_dims *d = b->dims;
    struct op *op = add_op(b, OP_JOIN, "later_both", d->norm_tokens, 2 * d->hidden);
    ids_add(&op->in, embedded);
    op->bytes = op->backward_bytes = 2 * b->element_bytes * op->m * op->n;
}

struct ops later_forward(const struct model *model, const struct layer_dims *dims,
                         const struct layer_options *options, struct arena *arena)
{
    struct builder b = layer_begin(model, dims, options, arena);
    int embedded = add_input(&b, dims->norm_tokens, dims->hidden);
    ids_add(&b.ops.aside, embedded);
    add_norm(&b, "later_embedding_norm", dims->norm_tokens, dims->hidden);
    embedded = b.value;
    b.ops.input = (short)add_input(&b, dims->norm_tokens, dims->hidden);
    add_norm(&b, "later_norm", dims->norm_tokens, dims->hidden);
    add_join(&b, embedded);
    add_enter(&b, "later_enter", "later_input", 2 * dims->hidden);
    struct linear project = { .name = "later_project",
                              .out = dims->hidden_columns,
                              .in = 2 * dims->hidden,
                              .split = SPLIT_ROWS };
    add_linear(&b, &project);
    add_joined_columns(&b);
    layer_add_block(&b);
    return b.ops;
}
