/* The op lists of the output head and the loss. A row block is a part of a microbatch's rows for
 * which the logits are computed at once. */
#include "models/layer_part.h"
#include "models/trainable.h"

#include <math.h>

double head_row_blocks(const struct layer_dims *dims, const struct layer_options *options)
{
    double rows = options->logits_rows;
    return rows > 0 && rows < dims->tokens ? ceil(dims->tokens / rows) : 0;
}

/* Each row block launches the op's kernels and reads the shared operands again. */
static void set_row_blocks(struct op *op, double row_blocks, double shared_bytes)
{
    if (row_blocks == 0)
        return;
    op->row_blocks = row_blocks;
    op->kernels *= row_blocks;
    op->backward_kernels *= row_blocks;
    op->bytes += (row_blocks - 1) * shared_bytes;
}

/* Adds two outputs that hold values per row of logits: the maximum; and the sum of exponentials
 * with the target's logit. */
static void add_row_sums(struct builder *b, struct op *reduce)
{
    double rows = b->dims->tokens;
    add_output(b, reduce, VALUE_STATISTICS, 4 * rows);
    add_output(b, reduce, VALUE_STATISTICS, 2 * 4 * rows);
}

/* Keeps the loss's inputs for its backward. They exist for only one microbatch at a time, not for
 * all in flight. Logits made in row blocks are not kept. */
static void keep_live(struct builder *b, struct op *loss, bool keeps_logits)
{
    for (int i = keeps_logits ? 0 : 1; i < loss->in.count; i++) {
        b->ops.operands->values[loss->in.at[i]].is_live = true;
        ids_add(&loss->saved, loss->in.at[i]);
    }
}

/* If tensor ranks split the vocabulary, they exchange the maximum, the target's logit and the sum
 * of exponentials. A fused loss sends the last two in one message (Megatron Core,
 * fusions/fused_cross_entropy.py). Fused, the loss is two kernels: one finds each row's maximum and
 * sum, the other its loss and gradient (TransformerEngine, common/triton/cross_entropy.py:
 * online_softmax_kernel, cross_entropy_kernel). */
static void add_loss(struct builder *b, double row_blocks)
{
    const struct layer_dims *dims = b->dims;
    struct op *reduce = add_reader(b, OP_ALL_REDUCE, "loss_reduce", dims->tokens, 3);
    add_row_sums(b, reduce);
    reduce->comm_bytes = 3 * 4 * dims->tokens;
    reduce->kernels = is_fused(b, FUSION_CROSS_ENTROPY) ? 2 : 3;
    set_row_blocks(reduce, row_blocks, 0);
    struct op *loss = add_reader(b, OP_CROSS_ENTROPY, "cross_entropy", dims->tokens, dims->vocab);
    for (int i = 0; i < reduce->out.count; i++)
        ids_add(&loss->in, reduce->out.at[i]);
    keep_live(b, loss, row_blocks == 0);
    double values = loss->m * loss->n;
    loss->bytes = values * b->element_bytes;
    loss->backward_bytes = values * 2 * b->element_bytes;
    loss->kernels = 2;
    if (!is_fused(b, FUSION_CROSS_ENTROPY))
        set_unfused(b, loss, UNFUSED_CROSS_ENTROPY, values);
    set_row_blocks(loss, row_blocks, 0);
}

/* BERT's linear layer and activation before the last norm. Every tensor rank applies it to its own
 * rows (Megatron Core, models/bert/bert_lm_head.py). */
static void add_transform(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    struct linear transform = { .name = "head_transform",
                                .rows = d->norm_tokens,
                                .out = d->hidden,
                                .in = d->hidden,
                                .summed = SUMMED_OVER_TOKENS,
                                .has_bias = true };
    add_gemm(b, &transform);
    add_activation(b, "head_activation", d->norm_tokens, d->hidden);
}

/* Final norm, logits, loss. The logits are not counted as saved: they exist for one microbatch
 * only, which sim/memory/memory adds at the loss. If tensor ranks split the vocabulary, the loss
 * needs the maximum, the sum and the target's logit of each token. With row blocks, the tensor
 * ranks reduce these in each block: the total volume is the same, in more and smaller messages. */
struct ops head_forward(const struct model *model, const struct layer_dims *dims,
                        const struct layer_options *options, struct arena *arena)
{
    struct builder b = layer_begin(model, dims, options, arena);
    struct linear output = { .name = "logits",
                             .out = dims->vocab,
                             .in = dims->hidden,
                             .split = SPLIT_ROWS,
                             .has_bias = model->head_bias };
    b.ops.input = (short)add_input(&b, dims->norm_tokens, dims->hidden);
    b.ops.is_input_constant = model_trains_head_alone(model);
    if (model->head_transform)
        add_transform(&b);
    add_norm(&b, "final_norm", dims->norm_tokens, dims->hidden);
    add_mark(&b, OP_TENSOR_ENTER, "head_enter", dims->hidden);
    double row_blocks = head_row_blocks(dims, options);
    struct op *logits = add_gemm(&b, &output);
    struct op_weight *matrix = &b.ops.operands->weights[logits->weights.at[0]];
    matrix->is_vocabulary = true;
    if (model->tied)
        matrix->is_frozen = !model_trains_table(model);
    set_row_blocks(logits, row_blocks, b.element_bytes * logits->k * logits->n);
    add_loss(&b, row_blocks);
    return b.ops;
}
