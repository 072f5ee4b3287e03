#include "models/layer_part.h"

/* The embedding gathers token rows, adds positions and applies dropout. If tensor ranks split the
 * vocabulary, the output is partial sums. The op keeps the 8-byte token ids. Traffic: each row is
 * read and written once; positions need a further gather and sum. The backward reads the gradient,
 * reads and writes the table's gradient, and sorts the ids. It has two kernels per forward kernel:
 * a sort, and a sum of equal rows (PyTorch, aten/src/ATen/native/cuda/Embedding.cu; the short
 * launches within the library's sort are left out). */
struct ops embedding_forward(const struct model *model, const struct layer_dims *dims,
                             const struct layer_options *options, struct arena *arena)
{
    struct builder b = layer_begin(model, dims, options, arena);
    b.place = WEIGHT_OF_EMBEDDING;
    double row_bytes = b.element_bytes * dims->hidden;
    add_input(&b, 0, 0);
    b.ops.operands->values[b.value] = (struct op_value){ 8 * dims->tokens, VALUE_IDS, false };
    struct op *op = add_op(&b, OP_EMBEDDING, "embedding", dims->tokens, dims->hidden);
    bool has_positions = model->positions == POSITION_LEARNED;
    op->k = dims->vocab;
    op->bytes = dims->tokens * (8 + row_bytes * (has_positions ? 5 : 2));
    op->backward_bytes = dims->tokens * row_bytes * 4;
    op->kernels = has_positions ? 3 : 1;
    op->backward_kernels = 2 * op->kernels;
    keep_input(&b, op);
    struct op_weight *table = add_weight(&b, op, WEIGHT_TABLE, op->k, op->n);
    table->split = SPLIT_ROWS;
    table->is_vocabulary = true;
    if (has_positions)
        add_weight(&b, op, WEIGHT_POSITIONS, model->max_positions, op->n);
    add_mark(&b, OP_TENSOR_LEAVE, "embedding_leave", dims->hidden);
    if (model->embedding_norm)
        add_norm(&b, "embedding_norm", dims->norm_tokens, dims->hidden);
    if (model->dropout > 0)
        add_residual(&b, "embedding_dropout");
    b.ops.output = (short)b.value;
    return b.ops;
}
