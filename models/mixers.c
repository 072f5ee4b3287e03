/* The first half of blocks that mix tokens by a state instead of keys and values: the gated delta
 * rule of Qwen3-Next, MiniMax-01's lightning attention, and Mamba-2. A matrix product makes all the
 * mixer's inputs; a scan over the tokens updates a state of key_dim x value_dim for each head; the
 * output passes a norm and a gate. Heads are divided over tensor ranks, as attention's are. */
#include "models/layer_part.h"

/* How many kernels each library launches in the forward and in the backward, quoted from memory:
 * flash-linear-attention's chunk_gated_delta_rule, mamba_ssm's mamba_split_conv1d_scan_combined,
 * and the two passes of lightning attention. Each library works on chunks of `chunk` tokens, and
 * writes a state for each chunk. */
struct library {
    const char *scan;
    double chunk, kernels, backward_kernels;
};
static const struct library delta_rule = { "delta_scan", 64, 6, 8 };
static const struct library state_space = { "mamba_scan", 256, 5, 8 };
static const struct library lightning = { "lightning_scan", 256, 2, 3 };

enum { RATE_BYTES = 4 }; /* decays and step sizes are fp32 */

static void add_mixer_in(struct builder *b, double width)
{
    struct linear in = {
        .name = "mixer_in", .out = width, .in = b->dims->hidden, .split = SPLIT_ROWS
    };
    begin_part(b, "attention_norm", false);
    add_enter(b, "mixer_enter", "mixer_input", b->dims->hidden);
    add_linear(b, &in);
}

/* Adds an op over `width` channels of a token that reads the current value and, unless it is NO_ID,
 * `gate`, and keeps both. The backward reads both and a gradient, and writes a gradient for each.
 */
static struct op *add_pointwise(struct builder *b, const char *name, double width, int gate)
{
    double bytes = b->element_bytes * b->dims->tokens * width;
    double operands = gate == NO_ID ? 1 : 2;
    struct op *op = add_op(b, OP_ACTIVATION, name, b->dims->tokens, width);
    op->bytes = (operands + 1) * bytes;
    op->backward_bytes = (2 * operands + 1) * bytes;
    keep_input(b, op);
    if (gate == NO_ID)
        return op;
    ids_add(&op->in, gate);
    keep(b, op, gate);
    return op;
}

/* Adds a causal convolution over the last linear_conv tokens of each channel, with silu. */
static void add_convolution(struct builder *b, double channels, bool has_bias)
{
    struct op *op = add_pointwise(b, "mixer_convolution", channels, NO_ID);
    add_weight(b, op, WEIGHT_SCALE, channels, b->model->linear_conv)->split = SPLIT_ROWS;
    if (has_bias)
        add_weight(b, op, WEIGHT_BIAS, channels, 1)->split = SPLIT_ROWS;
}

/* The sizes of a scan on this rank: `inputs` channels per token that it reads, FLOPs per token. */
struct scan {
    const struct library *library;
    double heads, key_dim, value_dim;
    double inputs, flops, model_flops;
};

/* Adds the scan. It reads its inputs, writes its outputs, and writes and reads each chunk's state.
 * The backward computes the states again and reads and writes gradients too: 2.5 times the traffic
 * and the products, as in flash attention's backward (an estimate, not measured). */
static struct op *add_scan(struct builder *b, const struct scan *of)
{
    double tokens = b->dims->tokens;
    double state = of->heads * of->key_dim * of->value_dim;
    struct op *op = add_op(b, OP_SCAN, of->library->scan, tokens, of->value_dim);
    op->k = of->key_dim;
    op->batch = of->heads;
    op->flops = of->flops * tokens;
    op->model_flops = of->model_flops * tokens;
    op->bytes = b->element_bytes * tokens *
                (of->inputs + of->heads * of->value_dim + 2 * state / of->library->chunk);
    op->backward_bytes = 2.5 * op->bytes;
    op->kernels = of->library->kernels;
    op->backward_kernels = of->library->backward_kernels;
    b->ops.operands->values[b->value].bytes = b->element_bytes * tokens * of->heads * of->value_dim;
    return op;
}

/* Adds the output's norm and gate as one kernel, and the projection. If shared_dim is not 0, a head
 * has that many channels and all heads share the scales of these channels; otherwise each of the
 * rank's channels has its own scale.
 * */
static void add_mixer_out(struct builder *b, double width, double shared_dim, int gate)
{
    const struct layer_dims *d = b->dims;
    struct linear out = {
        .name = "mixer_out", .out = d->hidden, .in = width, .split = SPLIT_COLUMNS
    };
    struct op *op = add_pointwise(b, "mixer_norm", width, gate);
    struct op_weight *scale =
        add_weight(b, op, WEIGHT_SCALE, 1, shared_dim > 0 ? shared_dim : width);
    if (shared_dim > 0)
        scale->summed = SUMMED_OVER_HEADS;
    else
        scale->split = SPLIT_ROWS;
    add_quantize(b, "mixer_out_input", d->tokens, width);
    add_linear(b, &out);
    add_leave(b, "mixer_leave");
    end_part(b, "attention_after_norm", "attention_residual");
}

/* Yang et al. 2024 (arXiv 2412.06464). FLOPs of a token and head as Megatron Core counts them: four
 * products of the state's size (k by k, v by k, the update, the output). The layer keeps, in
 * addition to the convolution's output, the keys and queries that the kernel normalises, repeated
 * for each value head; two rates; and a row of each chunk's triangular inverse. */
static void add_delta_block(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    double key_dim = b->model->linear_key_dim, value_dim = b->model->linear_value_dim;
    double heads = d->mixer_value_heads;
    double keys = d->mixer_key_heads * key_dim, values = heads * value_dim;
    double flops = 4 * 2 * heads * key_dim * value_dim;
    add_mixer_in(b, 2 * keys + 2 * values + 2 * heads);
    int made = b->value;
    add_convolution(b, 2 * keys + values, false);
    struct scan of = { &delta_rule, heads, key_dim, value_dim, 2 * keys + values + 2 * heads,
                       flops,       flops };
    struct op *op = add_scan(b, &of);
    ids_add(&op->in, made);
    keep_input(b, op);
    double row = b->element_bytes * (2 * key_dim + delta_rule.chunk) + 2 * RATE_BYTES;
    keep_output(b, op, VALUE_STATISTICS, d->tokens * heads * row);
    add_weight(b, op, WEIGHT_SCALE, 2, heads)->split = SPLIT_COLUMNS;
    add_mixer_out(b, values, value_dim, made);
}

/* Dao and Gu 2024 (arXiv 2405.21060). A token takes 7 FLOPs per element of the state, as Megatron
 * counts them. The library keeps the product's output and the scan's, and computes the convolution
 * again. Weights of a head: a decay, a share of the input in the output, a step size's bias. */
static void add_mamba_block(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    double key_dim = b->model->linear_key_dim, value_dim = b->model->linear_value_dim;
    double heads = d->mixer_value_heads;
    double groups = d->mixer_key_heads * key_dim, values = heads * value_dim;
    double flops = 7 * heads * key_dim * value_dim;
    add_mixer_in(b, 2 * values + 2 * groups + heads);
    int made = b->value;
    add_convolution(b, values + 2 * groups, true);
    struct scan of = { &state_space, heads, key_dim, value_dim, values + 2 * groups + heads,
                       flops,        flops };
    struct op *op = add_scan(b, &of);
    ids_add(&op->in, made);
    keep(b, op, made);
    add_weight(b, op, WEIGHT_SCALE, 3, heads)->split = SPLIT_COLUMNS;
    add_mixer_out(b, values, 0, made);
}

/* MiniMax-01 (arXiv 2501.08313), section 2.2. Per token and head: the update of the state and its
 * product with the query, 4 d^2 FLOPs; within a chunk also attention to half of its tokens, which
 * is not a model FLOP. */
static void add_lightning_block(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    double dim = d->head_dim, width = d->heads * dim;
    double flops = 4 * d->heads * dim * dim;
    add_mixer_in(b, 4 * width);
    int made = b->value;
    add_pointwise(b, "mixer_activation", 3 * width, NO_ID);
    struct scan of = { .library = &lightning,
                       .heads = d->heads,
                       .key_dim = dim,
                       .value_dim = dim,
                       .inputs = 3 * width,
                       .flops = flops + 2 * lightning.chunk * width,
                       .model_flops = flops };
    keep_input(b, add_scan(b, &of));
    add_mixer_out(b, width, 0, made);
}

void add_mixer_block(struct builder *b)
{
    switch ((enum attention_kind)b->model->attention) {
    case ATTENTION_DELTA:
        add_delta_block(b);
        return;
    case ATTENTION_LIGHTNING:
        add_lightning_block(b);
        return;
    case ATTENTION_MAMBA:
        add_mamba_block(b);
        return;
    case ATTENTION_NONE:
        return;
    default:
        add_attention_block(b);
    }
}
