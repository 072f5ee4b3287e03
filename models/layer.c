#include "models/layer.h"

#include <assert.h>
#include <math.h>

const char *const fusion_names[NUM_FUSIONS + 1] = {
    "bias_gelu", "residual",         "residual_norm", "softmax", "cross_entropy",
    "rotary",    "wgrad_accumulate", "norm",          NULL,
};

enum { MAX_LAYER_OPS = 32 };

/* A list under construction and what its ops have in common. */
struct builder {
    const struct model *model;
    const struct layer_dims *dims;
    const struct layer_options *options;
    double element_bytes; /* of an activation */
    struct ops ops;
};

static bool fused(const struct builder *b, enum fusion fusion)
{
    return (b->options->fusions >> fusion & 1) != 0;
}

static struct builder begin(const struct model *model, const struct layer_dims *dims,
                            const struct layer_options *options, struct arena *arena)
{
    return (struct builder){
        .model = model,
        .dims = dims,
        .options = options,
        .element_bytes = options->dtype == DTYPE_FP32 ? 4 : 2,
        .ops = { .at = ARENA_ARRAY(arena, struct op, MAX_LAYER_OPS) },
    };
}

/* Adds an op that waits for the one before it. */
static struct op *add(struct builder *b, enum op_kind kind, const char *name, double m, double n)
{
    assert(b->ops.count < MAX_LAYER_OPS);
    struct op *op = &b->ops.at[b->ops.count];
    *op = (struct op){
        .kind = kind,
        .name = name,
        .dtype = b->options->dtype,
        .m = m,
        .n = n,
        .k = 1,
        .batch = 1,
        .kernels = 1,
        .backward_kernels = 1,
        .after = b->ops.count - 1,
    };
    b->ops.count++;
    return op;
}

/* Reads the residual stream, writes as much, and keeps its input and fp32 statistics. The backward
 * reads input and gradient and writes a gradient; weight gradients are a small second kernel. */
static void add_norm(struct builder *b, const char *name, double rows, double width)
{
    struct op *op = add(b, OP_NORM, name, rows, width);
    double element = b->element_bytes;
    bool one_kernel = fused(b, FUSION_NORM);
    double statistics_bytes = b->model->norm == NORM_LAYER ? 8 : 4;
    op->bytes = (one_kernel ? 2 : 6) * element * rows * width;
    op->backward_bytes = (one_kernel ? 4 : 10) * element * rows * width;
    op->kernels = one_kernel ? 1 : 5;
    op->backward_kernels = one_kernel ? 2 : 10;
    op->saved_bytes = rows * (element * width + statistics_bytes);
}

static struct op *add_mark(struct builder *b, enum op_kind kind, const char *name)
{
    struct op *op = add(b, kind, name, b->dims->tokens, b->dims->hidden);
    op->kernels = 0;
    op->comm_bytes = b->element_bytes * op->m * op->n;
    return op;
}

/* Around the attention core: what enters it are a rank's own queries, keys and values. */
static void add_context_mark(struct builder *b, enum op_kind kind, const char *name,
                             double key_value_heads)
{
    const struct layer_dims *d = b->dims;
    struct op *op = add(b, kind, name, d->tokens, (d->heads + key_value_heads) * d->head_dim);
    op->k = key_value_heads * d->head_dim;
    op->kernels = 0;
    op->region = REGION_ATTENTION_CORE;
    op->comm_bytes = b->element_bytes * op->m * op->n;
}

/* 2 FLOPs a multiply-add. Keeps its input: sequence-sharded when that is how it came. */
static struct op *add_gemm(struct builder *b, const char *name, double width_out, double width_in,
                           bool column_parallel, bool bias)
{
    struct op *op = add(b, OP_GEMM, name, b->dims->tokens, width_out);
    double element = b->element_bytes;
    op->k = width_in;
    op->flops = op->model_flops = 2 * op->m * op->n * op->k;
    op->bytes = element * (op->m * op->k + op->k * op->n + op->m * op->n);
    op->column_parallel = column_parallel;
    op->has_bias = bias;
    op->saved_bytes = element * width_in * (column_parallel ? b->dims->norm_tokens : op->m);
    return op;
}

/* What comes next multiplies in fp8. Its weights are quantised once a step, outside the list. */
static void add_quantize(struct builder *b, const char *name, double rows, double width)
{
    const struct fp8_recipe *recipe = b->options->fp8;
    if (!recipe)
        return;
    struct op *op = add(b, OP_QUANTIZE, name, rows, width);
    op->bytes = fp8_quantize_bytes(recipe, b->options->fp8_copies, rows * width);
    op->kernels = recipe->kernels;
}

/* Sequence-sharded tokens are quantised before they are gathered, and travel as such: forward here,
 * and the gradient of what leaves on its way back. */
static void add_enter(struct builder *b, const char *name, const char *quantize_name)
{
    const struct layer_dims *d = b->dims;
    add_quantize(b, quantize_name, d->norm_tokens, d->hidden);
    struct op *op = add_mark(b, OP_TENSOR_ENTER, name);
    if (!b->options->fp8)
        return;
    op->dtype = DTYPE_FP8;
    op->comm_bytes = fp8_value_bytes(b->options->fp8) * op->m * op->n;
}

static void add_leave(struct builder *b, const char *name)
{
    const struct layer_dims *d = b->dims;
    struct op *op = add_mark(b, OP_TENSOR_LEAVE, name);
    if (!b->options->fp8)
        return;
    op->dtype = DTYPE_FP8;
    op->backward_bytes =
        fp8_quantize_bytes(b->options->fp8, b->options->fp8_copies, d->norm_tokens * d->hidden);
    op->backward_kernels = b->options->fp8->kernels;
}

/* A product of a block's linear layer: in fp8 with that recipe, whose output stays in 16 bits. Its
 * quantised input is kept along columns; the gradient of a column-parallel output is quantised
 * where it is, that of a row-parallel one before it is gathered. */
static void add_linear(struct builder *b, const char *name, double width_out, double width_in,
                       bool column_parallel, bool bias)
{
    const struct fp8_recipe *recipe = b->options->fp8;
    struct op *op = add_gemm(b, name, width_out, width_in, column_parallel, bias);
    if (!recipe)
        return;
    double value_bytes = fp8_value_bytes(recipe);
    op->saved_bytes *= value_bytes / b->element_bytes;
    op->dtype = DTYPE_FP8;
    op->bytes = value_bytes * (op->m * op->k + op->k * op->n) + b->element_bytes * op->m * op->n;
    if (!column_parallel)
        return;
    op->backward_bytes = fp8_quantize_bytes(recipe, b->options->fp8_copies, op->m * op->n);
    op->backward_kernels = recipe->kernels;
}

static void add_rotary(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    struct op *op = add(b, OP_ROTARY, "rotary", d->tokens, (d->heads + d->kv_heads) * d->head_dim);
    bool one_kernel = fused(b, FUSION_ROTARY);
    op->bytes = op->backward_bytes = (one_kernel ? 2 : 8) * b->element_bytes * op->m * op->n;
    op->kernels = op->backward_kernels = one_kernel ? 2 : 10;
}

/* The FLOPs of both products; a causal mask makes half of them count for MFU. */
static void set_attention_size(const struct builder *b, struct op *op)
{
    op->batch = b->dims->batch * b->dims->heads;
    op->region = REGION_ATTENTION_CORE;
}

/* The fused kernel's own limits (Megatron-LM fused_softmax.py, is_kernel_available). */
static bool fused_softmax_accepts(const struct layer_dims *d)
{
    return fmod(d->batch * d->heads, 4) == 0 && d->kv_seq <= 2048;
}

/* Scores, scale + mask + softmax (+ dropout), context: the probabilities live in memory. */
static void add_unfused_attention(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    double element = b->element_bytes;
    double query_bytes = element * d->tokens * d->heads * d->head_dim;
    double key_bytes = element * d->tokens * d->kv_heads * d->head_dim;
    double probabilities = d->batch * d->heads * d->seq * d->kv_seq;
    bool dropout = b->model->dropout > 0;
    bool one_kernel = fused(b, FUSION_SOFTMAX) && fused_softmax_accepts(d);

    struct op *scores = add(b, OP_SCORES, "scores", d->seq, d->kv_seq);
    set_attention_size(b, scores);
    scores->k = d->head_dim;
    scores->flops = 2 * probabilities * d->head_dim;
    scores->model_flops = scores->flops / 2;
    scores->bytes = query_bytes + key_bytes + element * probabilities;
    scores->saved_input_bytes = query_bytes + key_bytes;

    /* The fused kernel is causal: it reads the lower triangle and writes the whole. Without it the
     * scores are widened to fp32, scaled, masked, normalised and narrowed in kernels of their own.
     */
    double dropout_bytes = dropout ? 2 * element + 1 : 0;
    struct op *softmax = add(b, OP_SOFTMAX, "softmax", d->seq, d->kv_seq);
    set_attention_size(b, softmax);
    softmax->bytes = probabilities * ((one_kernel ? 1.5 * element : 36) + dropout_bytes);
    softmax->backward_bytes = probabilities * ((one_kernel ? 2 * element : 40) + dropout_bytes);
    softmax->kernels = (one_kernel ? 1 : 7) + (dropout ? 1 : 0);
    softmax->backward_kernels = (one_kernel ? 1 : 5) + (dropout ? 1 : 0);
    softmax->saved_bytes = probabilities * (element + (dropout ? 1 : 0));

    /* The heads are interleaved again by a copy of the output. */
    struct op *context = add(b, OP_CONTEXT, "context", d->seq, d->head_dim);
    set_attention_size(b, context);
    context->k = d->kv_seq;
    context->flops = 2 * probabilities * d->head_dim;
    context->model_flops = context->flops / 2;
    context->bytes = element * probabilities + key_bytes + 3 * query_bytes;
    context->kernels = 2;
    context->saved_bytes = dropout ? element * probabilities : 0;
    context->saved_input_bytes = key_bytes;
}

/* One kernel forward; the backward recomputes the scores: five products for two. Keeps the
 * log-sum-exp of each row; the output is kept by the projection that reads it, or in 16 bits here
 * when that keeps it in fp8. */
static void add_flash_attention(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    double row_bytes = b->element_bytes * d->head_dim;
    struct op *op = add(b, OP_FLASH_ATTENTION, "attention", d->seq, d->kv_seq);
    set_attention_size(b, op);
    op->k = d->head_dim;
    op->flops = op->model_flops = 4 * op->batch * d->seq * d->kv_seq * d->head_dim / 2;
    op->bytes = row_bytes * d->tokens * 2 * (d->heads + d->kv_heads);
    op->backward_bytes = 2.5 * op->bytes;
    op->backward_kernels = 3;
    op->saved_input_bytes = row_bytes * d->tokens * (d->heads + 2 * d->kv_heads);
    op->saved_bytes = 4 * d->tokens * d->heads;
    if (b->options->fp8)
        op->saved_bytes += row_bytes * d->tokens * d->heads;
}

/* Bias, dropout, add to the residual stream. Its backward unmasks the branch's gradient and adds
 * the two branches' gradients. */
static void add_residual(struct builder *b, const char *name, bool bias)
{
    double element = b->element_bytes;
    bool dropout = b->model->dropout > 0;
    bool one_kernel = fused(b, FUSION_RESIDUAL) || fused(b, FUSION_RESIDUAL_NORM);
    struct op *op = add(b, OP_RESIDUAL, name, b->dims->norm_tokens, b->dims->hidden);
    double values = op->m * op->n;
    double separate = (bias ? 2 * element : 0) + (dropout ? 2 * element : 0);
    op->bytes = values * (3 * element + (dropout ? 1 : 0) + (one_kernel ? 0 : separate));
    op->backward_bytes = values * (3 * element + (dropout ? 2 * element + 1 : 0));
    op->kernels = one_kernel ? 1 : 1 + (bias ? 1 : 0) + (dropout ? 1 : 0);
    op->backward_kernels = dropout ? 2 : 1;
    op->saved_bytes = dropout ? values : 0;
}

static void add_activation(struct builder *b)
{
    double element = b->element_bytes;
    double inputs = model_is_gated(b->model) ? 2 : 1;
    bool one_kernel = fused(b, FUSION_BIAS_GELU);
    struct op *op = add(b, OP_ACTIVATION, "activation", b->dims->tokens, b->dims->ffn);
    double values = op->m * op->n;
    op->bytes = values * element * (one_kernel ? inputs + 1 : 2 * inputs + 3);
    op->backward_bytes = values * element * (one_kernel ? 2 * inputs + 1 : 3 * inputs + 3);
    op->kernels = op->backward_kernels = one_kernel ? 1 : inputs + 1;
    op->saved_bytes = values * element * inputs;
}

static void add_attention_block(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    const struct model *model = b->model;
    bool bias = model->linear_bias;
    add_norm(b, "attention_norm", d->norm_tokens, d->hidden);
    add_enter(b, "attention_enter", "qkv_input");
    add_linear(b, "qkv", (d->heads + 2 * d->kv_heads) * d->head_dim, d->hidden, true,
               bias || model->qkv_bias);
    if (model->qk_norm)
        add_norm(b, "qk_norm", d->tokens * (d->heads + d->kv_heads), d->head_dim);
    if (model->positions == POSITION_ROTARY)
        add_rotary(b);
    add_context_mark(b, OP_CONTEXT_ENTER, "context_enter", 2 * d->kv_heads);
    if (b->options->flash_attention)
        add_flash_attention(b);
    else
        add_unfused_attention(b);
    add_context_mark(b, OP_CONTEXT_LEAVE, "context_leave", 0);
    add_quantize(b, "projection_input", d->tokens, d->heads * d->head_dim);
    add_linear(b, "projection", d->hidden, d->heads * d->head_dim, false, bias);
    add_leave(b, "attention_leave");
    add_residual(b, "attention_residual", bias);
}

static void add_feed_forward_block(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    bool bias = b->model->linear_bias;
    double inputs = model_is_gated(b->model) ? 2 : 1;
    add_norm(b, "ffn_norm", d->norm_tokens, d->hidden);
    add_enter(b, "ffn_enter", "fc1_input");
    add_linear(b, "fc1", inputs * d->ffn, d->hidden, true, bias);
    add_activation(b);
    add_quantize(b, "fc2_input", d->tokens, d->ffn);
    add_linear(b, "fc2", d->hidden, d->ffn, false, bias);
    add_leave(b, "ffn_leave");
    add_residual(b, "ffn_residual", bias);
}

struct ops layer_forward(const struct model *model, const struct layer_dims *dims,
                         const struct layer_options *options, struct arena *arena)
{
    struct builder b = begin(model, dims, options, arena);
    add_attention_block(&b);
    add_feed_forward_block(&b);
    return b.ops;
}

/* Token rows gathered, positions added, dropout. A vocabulary split over tensor ranks leaves
 * partial sums. Keeps the 8-byte token ids. */
struct ops embedding_forward(const struct model *model, const struct layer_dims *dims,
                             const struct layer_options *options, struct arena *arena)
{
    struct builder b = begin(model, dims, options, arena);
    double row_bytes = b.element_bytes * dims->hidden;
    struct op *op = add(&b, OP_EMBEDDING, "embedding", dims->tokens, dims->hidden);
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

/* Final norm, logits, loss. The logits themselves are not counted as saved: they live once, not for
 * each microbatch in flight, and sim/cost/memory adds them for the microbatch at the loss. The loss
 * over a split vocabulary needs the maximum, the sum and the target's logit of each token. */
struct ops head_forward(const struct model *model, const struct layer_dims *dims,
                        const struct layer_options *options, struct arena *arena)
{
    struct builder b = begin(model, dims, options, arena);
    add_norm(&b, "final_norm", dims->norm_tokens, dims->hidden);
    add_mark(&b, OP_TENSOR_ENTER, "head_enter");
    add_gemm(&b, "logits", dims->vocab, dims->hidden, true, false);
    struct op *reduce = add(&b, OP_ALL_REDUCE, "loss_reduce", dims->tokens, 3);
    reduce->comm_bytes = 3 * 4 * dims->tokens;
    reduce->kernels = 3;
    struct op *loss = add(&b, OP_CROSS_ENTROPY, "cross_entropy", dims->tokens, dims->vocab);
    bool one_kernel = fused(&b, FUSION_CROSS_ENTROPY);
    double logits = loss->m * loss->n;
    loss->bytes = logits * (one_kernel ? b.element_bytes : b.element_bytes + 28);
    loss->backward_bytes = logits * (one_kernel ? 2 * b.element_bytes : b.element_bytes + 16);
    loss->kernels = one_kernel ? 2 : 12;
    loss->backward_kernels = one_kernel ? 1 : 5;
    return b.ops;
}

struct layer_dims layer_dims(const struct model *model, double batch, double seq)
{
    return (struct layer_dims){
        .batch = batch,
        .seq = seq,
        .kv_seq = seq,
        .tokens = batch * seq,
        .norm_tokens = batch * seq,
        .hidden = model->hidden,
        .heads = model->heads,
        .kv_heads = model->kv_heads,
        .head_dim = model->head_dim,
        .ffn = model->ffn,
        .vocab = model->vocab,
    };
}

double ops_flops(struct ops ops)
{
    double flops = 0;
    for (int i = 0; i < ops.count; i++)
        flops += ops.at[i].flops;
    return flops;
}

double ops_model_flops(struct ops ops)
{
    double flops = 0;
    for (int i = 0; i < ops.count; i++)
        flops += ops.at[i].model_flops;
    return flops;
}

/* Backward counts twice the forward: each product has two gradients. */
double model_step_flops(const struct model *model, double sequences, double seq)
{
    struct arena arena = { 0 };
    struct layer_dims dims = layer_dims(model, 1, seq);
    struct layer_options options = { .flash_attention = true, .dtype = DTYPE_BF16 };
    double forward_flops =
        model->layers * ops_model_flops(layer_forward(model, &dims, &options, &arena)) +
        ops_model_flops(head_forward(model, &dims, &options, &arena));
    arena_release(&arena);
    return 3 * sequences * forward_flops;
}
