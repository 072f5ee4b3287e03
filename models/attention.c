/* The first half of a block: norm, attention, its projections and the residual. */
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

static void add_rotary(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    struct op *op =
        add_op_in_place(b, OP_ROTARY, "rotary", d->tokens, (d->heads + d->kv_heads) * d->head_dim);
    op->bytes = op->backward_bytes = 2 * b->element_bytes * op->m * op->n;
    op->kernels = op->backward_kernels = 2; /* one kernel for queries, one for keys */
    if (!is_fused(b, FUSION_ROTARY))
        set_unfused(b, op, UNFUSED_ROTARY, op->m * op->n);
}

/* Transformer-XL's relative positions (Dai et al. 2019, section 3.3): every block multiplies the
 * sinusoids of all distances by W_k,R (hidden x heads head_dim). The results are further keys, by
 * which queries are multiplied as by the tokens' keys. The sinusoids are a constant that all blocks
 * share, and all sequences share the keys. Each head's two bias vectors, u and v, are left out:
 * they are 1e-5 of the parameters. Returns the id of the keys. */
static int add_relative_keys(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    struct linear keys = { .name = "relative_keys",
                           .rows = d->kv_seq,
                           .out = d->heads * d->head_dim,
                           .in = d->hidden,
                           .split = SPLIT_ROWS };
    int at_hand = b->value;
    b->value = operands_add_value(b->ops.operands, (struct op_value){ .form = VALUE_IDS });
    ids_add(&b->ops.aside, b->value);
    add_gemm(b, &keys);
    int made = b->value;
    b->value = at_hand;
    return made;
}

/* Makes the attention core also read and keep the keys of distances, if there are any. */
static void read_relative_keys(struct builder *b, struct op *op, int keys)
{
    if (keys == NO_ID)
        return;
    ids_add(&op->in, keys);
    keep(b, op, keys);
    op->bytes += b->ops.operands->values[keys].bytes;
}

/* The attention product runs once per head and sequence. Attention's dropout uses the layer's first
 * draw number, the index that selects random numbers. The first norm of the layer has this number
 * but draws nothing. */
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

/* Sizes for one microbatch on this rank: attention's inputs and output in bytes, and the number of
 * probabilities. */
struct attention_sizes {
    double query_bytes, key_bytes, value_bytes, output_bytes;
    double probabilities;
};

static struct attention_sizes attention_sizes(const struct builder *b)
{
    const struct layer_dims *d = b->dims;
    return (struct attention_sizes){
        .query_bytes = b->element_bytes * d->tokens * d->heads * d->head_dim,
        .key_bytes = b->element_bytes * d->tokens * d->kv_heads * d->head_dim,
        .value_bytes = b->element_bytes * d->tokens * d->kv_heads * d->value_dim,
        .output_bytes = b->element_bytes * d->tokens * d->heads * d->value_dim,
        .probabilities = d->batch * d->heads * d->seq * d->kv_seq,
    };
}

/* Twice the number of keys that a token sees on average, so that plain causal attention over s keys
 * gives s. In a window w the token at position t sees min(t, w) keys, which is s w - w^2 / 2 for
 * all tokens together. A chunk counts as a separate sequence. */
static double attended_keys(const struct builder *b)
{
    const struct model *model = b->model;
    double keys = documents_attended(&model->documents, b->dims->kv_seq);
    if (model->attention == ATTENTION_WINDOW && model->sliding_window < keys) {
        double window = model->sliding_window;
        return 2 * window - window * window / keys;
    }
    return model->attention == ATTENTION_CHUNK ? fmin(keys, model->attention_chunk) : keys;
}

/* FLOPs that count for MFU: under the causal mask a token sees half of attended_keys(). */
static double masked_flops(const struct builder *b, double flops)
{
    return flops / 2 * (attended_keys(b) / b->dims->kv_seq);
}

/* Adds attention sinks: one learned score per head that takes part in the softmax. */
static void add_sinks(struct builder *b, struct op *op)
{
    if (b->model->sinks)
        add_weight(b, op, WEIGHT_BIAS, b->dims->heads, 1)->split = SPLIT_ROWS;
}

/* With relative positions, the scores of distances are shifted by a separate copy and then added
 * (Dai et al. 2019, appendix B). */
static void add_scores(struct builder *b, const struct attention_sizes *sizes, int relative_keys)
{
    const struct layer_dims *d = b->dims;
    double element_bytes = b->element_bytes;
    struct op *scores = add_op(b, OP_SCORES, "scores", d->seq, d->kv_seq);
    set_attention_size(b, scores);
    scores->k = (relative_keys == NO_ID ? 1 : 2) * d->head_dim;
    scores->flops = 2 * sizes->probabilities * scores->k;
    scores->model_flops = masked_flops(b, scores->flops);
    scores->bytes = sizes->query_bytes + sizes->key_bytes + element_bytes * sizes->probabilities;
    if (relative_keys != NO_ID)
        scores->bytes += 2 * element_bytes * sizes->probabilities;
    keep_input(b, scores);
    read_relative_keys(b, scores, relative_keys);
    b->ops.operands->values[b->value].bytes = element_bytes * sizes->probabilities;
}

/* The fused kernel is causal: it reads the lower triangle of the scores and writes all
 * probabilities. */
static void add_softmax(struct builder *b, const struct attention_sizes *sizes)
{
    const struct layer_dims *d = b->dims;
    double element_bytes = b->element_bytes;
    bool dropout = b->model->dropout > 0;
    bool one_kernel = is_fused(b, FUSION_SOFTMAX) && fused_softmax_accepts(d);
    double dropout_bytes = dropout ? 2 * element_bytes + 1 : 0;
    struct op *softmax = add_op(b, OP_SOFTMAX, "softmax", d->seq, d->kv_seq);
    softmax->variant = dropout ? "dropout" : "";
    set_attention_size(b, softmax);
    softmax->bytes = sizes->probabilities * 1.5 * element_bytes;
    softmax->backward_bytes = sizes->probabilities * 2 * element_bytes;
    if (!one_kernel)
        set_unfused(b, softmax, UNFUSED_SOFTMAX, sizes->probabilities);
    softmax->bytes += sizes->probabilities * dropout_bytes;
    softmax->backward_bytes += sizes->probabilities * dropout_bytes;
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
static void add_context(struct builder *b, const struct attention_sizes *sizes, int qkv)
{
    const struct layer_dims *d = b->dims;
    double element_bytes = b->element_bytes;
    struct op *context = add_op(b, OP_ATTENTION_VALUES, "context", d->seq, d->value_dim);
    ids_add(&context->in, qkv);
    b->ops.operands->values[b->value].bytes = sizes->output_bytes;
    set_attention_size(b, context);
    context->k = d->kv_seq;
    context->flops = 2 * sizes->probabilities * d->value_dim;
    context->model_flops = masked_flops(b, context->flops);
    context->bytes =
        element_bytes * sizes->probabilities + sizes->value_bytes + 3 * sizes->output_bytes;
    context->kernels = 2;
    keep_input(b, context);
    keep(b, context, qkv);
}

/* Attention as separate kernels: scores; scale, mask, softmax and dropout; context. The
 * probabilities are written to memory. */
static void add_unfused_attention(struct builder *b, int relative_keys)
{
    struct attention_sizes sizes = attention_sizes(b);
    int qkv = b->value;
    add_scores(b, &sizes, relative_keys);
    add_softmax(b, &sizes);
    add_context(b, &sizes, qkv);
}

/* The forward is one kernel with two products. The backward recomputes the scores and has five
 * products. The op keeps the log-sum-exp of each row and its output; the projection keeps the
 * output too, except in fp8. The backward reads five tensors of the output's size and writes three,
 * dq in fp32: 2.5 times the forward's traffic. One kernel before the backward computes row sums,
 * and one after it converts dq to 16 bits (FlashAttention 2, flash_bwd_launch_template.h). The
 * kernels skip keys of other documents. */
static void add_flash_attention(struct builder *b, int relative_keys)
{
    const struct layer_dims *d = b->dims;
    struct attention_sizes sizes = attention_sizes(b);
    double attended = attended_keys(b);
    struct op *op = add_op(b, OP_FLASH_ATTENTION, "attention", d->seq, attended);
    op->variant = b->model->dropout > 0 ? "dropout" : "";
    set_attention_size(b, op);
    op->k = d->head_dim;
    double relative = relative_keys == NO_ID ? 0 : d->head_dim; /* queries x distances */
    op->flops = op->model_flops =
        2 * op->batch * d->seq * attended * (d->head_dim + d->value_dim + relative) / 2;
    op->bytes = sizes.query_bytes + sizes.key_bytes + sizes.value_bytes + sizes.output_bytes;
    op->backward_bytes = 2.5 * op->bytes;
    op->backward_kernels = 3;
    add_sinks(b, op);
    b->ops.operands->values[b->value].bytes = sizes.output_bytes;
    keep_input(b, op);
    read_relative_keys(b, op, relative_keys);
    keep_output(b, op, VALUE_STATISTICS, 4 * d->tokens * d->heads);
}

/* Flash attention's backward reads the output after the exchange between context ranks, so that
 * output is kept. */
static void leave_core(struct builder *b)
{
    struct op *core = &b->ops.at[b->ops.count - 1];
    add_context_mark(b, OP_CP_LEAVE, "context_leave", b->dims->heads * b->dims->value_dim, 0);
    if (core->kind == OP_FLASH_ATTENTION)
        ids_add(&core->saved, b->value);
}

/* Adds one product that computes queries, keys and values of all heads, and gates as wide as the
 * queries if the model has them. */
static void add_heads(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    const struct model *model = b->model;
    double query_width = (model->attention_gate ? 2 : 1) * d->heads * d->head_dim;
    struct linear qkv = { .name = "qkv",
                          .out = query_width + 2 * d->kv_heads * d->head_dim,
                          .in = d->hidden,
                          .split = SPLIT_ROWS,
                          .has_bias = model->linear_bias || model->qkv_bias,
                          .matrices = { query_width, d->kv_heads * d->head_dim,
                                        d->kv_heads * d->head_dim } };
    add_enter(b, "attention_enter", "qkv_input", d->hidden);
    add_linear(b, &qkv);
    b->ops.operands->values[b->value].form = VALUE_HEADS;
    if (model->qk_norm)
        add_head_norm(b, "qk_norm");
    if (model->positions == POSITION_ROTARY)
        add_rotary(b);
}

/* Multiplies the core's output by the sigmoids of the gates, which are part of `heads`
 * (Qwen3-Next). The backward reads both and a gradient, and writes two gradients. */
static void add_attention_gate(struct builder *b, int heads)
{
    if (!b->model->attention_gate)
        return;
    double width = b->dims->heads * b->dims->value_dim;
    struct op *op = add_op(b, OP_ACTIVATION, "attention_gate", b->dims->tokens, width);
    op->bytes = 3 * b->element_bytes * op->m * op->n;
    op->backward_bytes = 5 * b->element_bytes * op->m * op->n;
    ids_add(&op->in, heads);
    keep_input(b, op);
    keep(b, op, heads);
}

void add_attention_block(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    double key_width = d->kv_heads * (d->head_dim + d->value_dim);
    struct linear projection = { .name = "projection",
                                 .out = d->hidden,
                                 .in = d->heads * d->value_dim,
                                 .split = SPLIT_COLUMNS,
                                 .has_bias = b->model->linear_bias || b->model->out_bias };
    begin_part(b, "attention_norm");
    if (b->model->kv_lora > 0)
        add_latent_heads(b);
    else
        add_heads(b);
    int heads = b->value;
    int relative_keys =
        b->model->positions == POSITION_TRANSFORMER_XL ? add_relative_keys(b) : NO_ID;
    add_context_mark(b, OP_CP_ENTER, "context_enter", d->heads * d->head_dim + key_width,
                     key_width);
    if (b->options->flash_attention)
        add_flash_attention(b, relative_keys);
    else
        add_unfused_attention(b, relative_keys);
    leave_core(b);
    add_attention_gate(b, heads);
    add_quantize(b, "projection_input", d->tokens, projection.in);
    add_linear(b, &projection);
    add_leave(b, "attention_leave");
    end_part(b, "attention_after_norm", "attention_residual");
}
