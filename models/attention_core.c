/* The attention core, which is attention between its projections: scores of queries and keys,
 * softmax, and the sum of values weighted by the probabilities. */
#include "models/layer_part.h"

#include <math.h>

/* Adds a context-parallel mark before or after the attention core. Before the core, the rows are
 * queries, keys and values of the rank's tokens; after the core, they are its output. Rows have
 * `width` channels, of which `key_width` belong to keys and values. */
static void add_context_mark(struct builder *b, enum op_kind kind, const char *name, double width,
                             double key_width)
{
    struct op *op = add_op_in_place(b, kind, name, b->dims->tokens, width);
    op->k = key_width;
    op->kernels = 0;
    op->region = REGION_ATTENTION_CORE;
    op->comm_bytes = b->element_bytes * op->m * op->n;
}

/* Makes the attention core also read and keep a value, unless it is NO_ID. */
static void read_and_keep(struct builder *b, struct op *op, int value)
{
    if (value == NO_ID)
        return;
    ids_add(&op->in, value);
    keep(b, op, value);
}

/* Makes the core also read and keep the keys of distances, whose bytes are not among the sizes of
 * attention's inputs. */
static void read_relative_keys(struct builder *b, struct op *op, int keys)
{
    read_and_keep(b, op, keys);
    if (keys != NO_ID)
        op->bytes += b->ops.operands->values[keys].bytes;
}

/* A matrix product of attention runs once per head and sequence. Attention's dropout uses the
 * layer's first draw number, the index that selects random numbers. The first norm of the layer has
 * this number but draws nothing. */
static void set_attention_size(const struct builder *b, struct op *op)
{
    op->batch = b->dims->batch * b->dims->heads;
    op->region = REGION_ATTENTION_CORE;
    op->draw = 0;
}

/* The fused kernel's own limits (Megatron-LM fused_softmax.py, is_kernel_available). */
static bool fused_softmax_accepts(const struct layer_dims *d)
{
    return fmod(d->batch * d->heads, 4) == 0 && d->kv_seq <= 2048;
}

/* Sizes for one microbatch on this rank: attention's inputs and output in bytes, the keys that
 * unfused scores have per query, and the number of probabilities. */
struct attention_sizes {
    double query_bytes, key_bytes, value_bytes, output_bytes, bias_bytes;
    double keys, probabilities;
};

/* Keys per query of unfused scores. Products of whole blocks leave out blocks to which no token of
 * the query's block attends; other kinds compute all scores and mask some. */
static double score_keys(const struct builder *b)
{
    const struct model *model = b->model;
    double all = b->dims->kv_seq;
    if (model->attention == ATTENTION_BLOCKS)
        return fmin(all, (double)model->attention_blocks * model->attention_block);
    return model->attention == ATTENTION_LOW_RANK ? model->attention_rank : all;
}

static struct attention_sizes attention_sizes(const struct builder *b,
                                              const struct attention_inputs *inputs)
{
    const struct layer_dims *d = b->dims;
    double keys = score_keys(b);
    double key_rows = b->model->attention == ATTENTION_LOW_RANK ? d->batch * keys : d->tokens;
    double bias_bytes = b->element_bytes * d->heads * d->seq * d->kv_seq;
    return (struct attention_sizes){
        .query_bytes = b->element_bytes * d->tokens * d->heads * d->head_dim,
        .key_bytes = b->element_bytes * key_rows * d->kv_heads * d->head_dim,
        .value_bytes = b->element_bytes * key_rows * d->kv_heads * d->value_dim,
        .output_bytes = b->element_bytes * d->tokens * d->heads * d->value_dim,
        .bias_bytes = inputs->has_bias ? bias_bytes : 0,
        .keys = keys,
        .probabilities = d->batch * d->heads * d->seq * keys,
    };
}

/* Twice the mean number of keys that a token sees in a causal window: s tokens with a window of w
 * see s w - w^2 / 2 keys together. */
double keys_in_window(double keys, double window)
{
    return window < keys ? 2 * window - window * window / keys : keys;
}

/* A token sees half of its own block and up to attention_blocks - 1 blocks before it. With n blocks
 * and at most c of them seen, block i of 1 ... n sees min(i, c); the sum is c n - c (c - 1) / 2. */
static double keys_in_blocks(const struct model *model, double keys)
{
    double block = fmin(model->attention_block, keys);
    double blocks = keys / block;
    double seen = fmin(model->attention_blocks, blocks);
    return 2 * block * (seen - seen * (seen - 1) / (2 * blocks) - 0.5);
}

/* Twice the number of keys that a token sees on average, so that plain causal attention over s keys
 * gives s. A chunk counts as a separate sequence. */
static double attended_keys(const struct builder *b, const struct attention_inputs *inputs)
{
    const struct model *model = b->model;
    double keys = documents_attended(&model->documents, b->dims->kv_seq);
    if (inputs->is_other_sequence)
        return 2 * b->dims->kv_seq;
    switch ((enum attention_kind)model->attention) {
    case ATTENTION_WINDOW:
        return keys_in_window(keys, model->sliding_window);
    case ATTENTION_SPARSE:
        return keys_in_window(keys, model->index_topk);
    case ATTENTION_CHUNK:
        return fmin(keys, model->attention_chunk);
    case ATTENTION_BLOCKS:
        return keys_in_blocks(model, keys);
    case ATTENTION_LOW_RANK:
        return 2.0 * model->attention_rank;
    case ATTENTION_ENCODER:
        return 2 * keys;
    default:
        return keys;
    }
}

/* Whether a token attends only to itself and earlier tokens, and the scores' product computes the
 * other scores too. */
static bool masks_later_tokens(const struct builder *b, const struct attention_inputs *inputs)
{
    switch ((enum attention_kind)b->model->attention) {
    case ATTENTION_ENCODER:
    case ATTENTION_LOW_RANK:
    case ATTENTION_BLOCKS:
        return false;
    default:
        return !inputs->is_other_sequence;
    }
}

/* FLOPs that count for MFU: under the causal mask a token sees half of attended_keys(). */
static double masked_flops(const struct builder *b, const struct attention_inputs *inputs,
                           double flops)
{
    return flops / 2 * (attended_keys(b, inputs) / score_keys(b));
}

/* Adds attention sinks: one learned score per head that takes part in the softmax. */
static void add_sinks(struct builder *b, struct op *op)
{
    if (b->model->sinks)
        add_weight(b, op, WEIGHT_BIAS, b->dims->heads, 1)->split = SPLIT_ROWS;
}

/* With relative positions of Transformer-XL, the scores of distances are shifted by a separate copy
 * and then added (Dai et al. 2019, appendix B). */
static void add_scores(struct builder *b, const struct attention_sizes *sizes,
                       const struct attention_inputs *inputs)
{
    const struct layer_dims *d = b->dims;
    double element_bytes = b->element_bytes;
    bool has_distances = inputs->relative_keys != NO_ID;
    struct op *scores = add_op(b, OP_SCORES, "scores", d->seq, sizes->keys);
    set_attention_size(b, scores);
    scores->k = (has_distances ? 2 : 1) * d->head_dim;
    scores->flops = 2 * sizes->probabilities * scores->k;
    scores->model_flops = masked_flops(b, inputs, scores->flops);
    scores->bytes = sizes->query_bytes + sizes->key_bytes + element_bytes * sizes->probabilities;
    if (has_distances)
        scores->bytes += 2 * element_bytes * sizes->probabilities;
    keep_input(b, scores);
    if (inputs->is_apart)
        read_and_keep(b, scores, inputs->keys);
    read_relative_keys(b, scores, inputs->relative_keys);
    b->ops.operands->values[b->value].bytes = element_bytes * sizes->probabilities;
}

/* A causal fused kernel reads the lower triangle of the scores and writes all probabilities. */
static void add_softmax(struct builder *b, const struct attention_sizes *sizes,
                        const struct attention_inputs *inputs)
{
    const struct layer_dims *d = b->dims;
    double element_bytes = b->element_bytes;
    bool dropout = b->model->dropout > 0;
    bool one_kernel = is_fused(b, FUSION_SOFTMAX) && fused_softmax_accepts(d);
    double dropout_bytes = dropout ? 2 * element_bytes + 1 : 0;
    struct op *softmax = add_op(b, OP_SOFTMAX, "softmax", d->seq, sizes->keys);
    softmax->variant = dropout ? "dropout" : "";
    set_attention_size(b, softmax);
    softmax->bytes =
        sizes->probabilities * (masks_later_tokens(b, inputs) ? 1.5 : 2) * element_bytes;
    softmax->backward_bytes = sizes->probabilities * 2 * element_bytes;
    if (!one_kernel)
        set_unfused(b, softmax, UNFUSED_SOFTMAX, sizes->probabilities);
    softmax->bytes += sizes->probabilities * dropout_bytes + sizes->bias_bytes;
    softmax->backward_bytes += sizes->probabilities * dropout_bytes + sizes->bias_bytes;
    softmax->kernels += dropout ? 1 : 0;
    softmax->backward_kernels += dropout ? 1 : 0;
    add_sinks(b, softmax);
    b->ops.operands->values[b->value].bytes = element_bytes * sizes->probabilities;
    ids_add(&softmax->saved, b->value);
    if (!dropout)
        return;
    keep_output(b, softmax, VALUE_MASK, sizes->probabilities);
    b->value = add_output(b, softmax, VALUE_ROWS, element_bytes * sizes->probabilities);
}

/* A copy of the output restores the order of the heads. With dropout, probabilities before and
 * after dropout are kept. */
static void add_context(struct builder *b, const struct attention_sizes *sizes,
                        const struct attention_inputs *inputs, int values)
{
    const struct layer_dims *d = b->dims;
    double element_bytes = b->element_bytes;
    struct op *context = add_op(b, OP_ATTENTION_VALUES, "context", d->seq, d->value_dim);
    ids_add(&context->in, values);
    b->ops.operands->values[b->value].bytes = sizes->output_bytes;
    set_attention_size(b, context);
    context->k = sizes->keys;
    context->flops = 2 * sizes->probabilities * d->value_dim;
    context->model_flops = masked_flops(b, inputs, context->flops);
    context->bytes =
        element_bytes * sizes->probabilities + sizes->value_bytes + 3 * sizes->output_bytes;
    context->kernels = 2;
    keep_input(b, context);
    keep(b, context, values);
}

/* Attention as separate kernels: scores; scale, mask, softmax and dropout; context. The
 * probabilities are written to memory. */
static void add_unfused_attention(struct builder *b, const struct attention_inputs *inputs)
{
    struct attention_sizes sizes = attention_sizes(b, inputs);
    int values = inputs->is_apart ? inputs->values : b->value;
    add_scores(b, &sizes, inputs);
    add_softmax(b, &sizes, inputs);
    add_context(b, &sizes, inputs, values);
}

/* The forward is one kernel with two matrix products. The backward recomputes the scores and has
 * five. The op keeps the log-sum-exp of each row and its output; the projection keeps the output
 * too, except in fp8. The backward reads five tensors of the output's size and writes three, dq in
 * fp32: 2.5 times the forward's traffic. One kernel before the backward computes row sums, and one
 * after it converts dq to 16 bits (FlashAttention 2, flash_bwd_launch_template.h). The kernels skip
 * keys of other documents. */
static void add_flash_attention(struct builder *b, const struct attention_inputs *inputs)
{
    const struct layer_dims *d = b->dims;
    struct attention_sizes sizes = attention_sizes(b, inputs);
    double attended = attended_keys(b, inputs);
    struct op *op = add_op(b, OP_FLASH_ATTENTION, "attention", d->seq, attended);
    op->variant = b->model->dropout > 0 ? "dropout" : "";
    set_attention_size(b, op);
    op->k = d->head_dim;
    double distances = inputs->relative_keys == NO_ID ? 0 : d->head_dim; /* queries x distances */
    op->flops = op->model_flops =
        2 * op->batch * d->seq * attended * (d->head_dim + d->value_dim + distances) / 2;
    op->bytes = sizes.query_bytes + sizes.key_bytes + sizes.value_bytes + sizes.output_bytes +
                sizes.bias_bytes;
    op->backward_bytes = 2.5 * op->bytes;
    op->backward_kernels = 3;
    add_sinks(b, op);
    b->ops.operands->values[b->value].bytes = sizes.output_bytes;
    keep_input(b, op);
    read_relative_keys(b, op, inputs->relative_keys);
    if (inputs->is_apart)
        read_and_keep(b, op, inputs->keys);
    if (inputs->is_apart && inputs->values != inputs->keys)
        read_and_keep(b, op, inputs->values);
    read_and_keep(b, op, inputs->chosen);
    keep_output(b, op, VALUE_STATISTICS, 4 * d->tokens * d->heads);
}

/* Flash attention's backward reads the output after the exchange between context ranks, so that
 * output is kept. */
static void leave_core(struct builder *b)
{
    struct op *core = &b->ops.at[b->ops.count - 1];
    int output = b->value;
    add_context_mark(b, OP_CP_LEAVE, "context_leave", b->dims->heads * b->dims->value_dim, 0);
    if (core->kind != OP_FLASH_ATTENTION)
        return;
    ids_add(&core->saved, b->value);
    store_as(b, output, b->options->stores.attention); /* with one context rank, `output` is
                                                          b->value */
    core->bytes += store_as(b, b->value, b->options->stores.attention);
}

void add_attention_core(struct builder *b, const struct attention_inputs *inputs)
{
    const struct layer_dims *d = b->dims;
    double key_width = d->kv_heads * (d->head_dim + d->value_dim);
    add_context_mark(b, OP_CP_ENTER, "context_enter", d->heads * d->head_dim + key_width,
                     key_width);
    if (b->options->flash_attention)
        add_flash_attention(b, inputs);
    else
        add_unfused_attention(b, inputs);
    leave_core(b);
}
