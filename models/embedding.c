#include "models/layer_part.h"

/* Token rows gathered, positions added, dropout. A vocabulary split over tensor ranks leaves
 * partial sums. Keeps the 8-byte token ids. */
struct ops embedding_forward(const struct model *model, const struct layer_dims *dims,
                             const struct layer_options *options, struct arena *arena)
{
    struct builder b = layer_begin(model, dims, options, arena);
    double row_bytes = b.element_bytes * dims->hidden;
    struct op *op = add_op(&b, OP_EMBEDDING, "embedding", dims->tokens, dims->hidden);
    op->k = dims->vocab;
    op->bytes = dims->tokens * (8 + row_bytes * (model->positions == POSITION_LEARNED ? 5 : 2));
    op->backward_bytes = dims->tokens * row_bytes * 4;
    op->kernels = model->positions == POSITION_LEARNED ? 3 : 1;
    op->backward_kernels = 2 * op->kernels;
    op->saved_bytes = 8 * dims->tokens;
    add_mark(&b, OP_TENSOR_LEAVE, "embedding_leave");
    if (model->embedding_norm)
        add_norm(&b, "embedding_norm", dims->norm_tokens, dims->hidden);
    if (model->dropout > 0)
        add_residual(&b, "embedding_dropout", false);
    return b.ops;
}
