/* The backward of a forward list: one rule per op kind, so that nobody writes a second list. */
#include "models/layer_part.h"

#include <assert.h>

/* One forward op becomes at most this many: bias gradient, quantised gradient, input gradient, its
 * collective, the re-gathered input, weight gradient. */
enum { MAX_BACKWARD_OPS_EACH = 6 };

static bool is_fused_in(const struct layer_options *options, enum fusion fusion)
{
    return (options->fusions >> fusion & 1) != 0;
}

static struct op *push(struct ops *out, struct op op, enum op_pass pass)
{
    op.pass = pass;
    op.saved_bytes = op.saved_input_bytes = 0;
    op.backward_bytes = op.backward_kernels = 0;
    op.folded = NULL;
    op.after = out->count - 1;
    out->at[out->count] = op;
    return &out->at[out->count++];
}

/* How often what does not depend on rows is read or written. */
static double runs_of(const struct op *op)
{
    return op->chunks > 1 ? op->chunks : 1;
}

/* Of an input of a product. */
static double input_bytes(const struct op *op, const struct layer_options *options)
{
    return op->dtype == DTYPE_FP8 ? fp8_value_bytes(options->fp8) : layer_element_bytes(options);
}

/* What a mark turns into on the way back: gathering becomes summing and the other way round. What
 * is gathered has been quantised, sums are in 16 bits. */
static void push_mark(struct ops *out, const struct op *mark, enum op_kind kind, enum op_pass pass,
                      const struct layer_options *options)
{
    struct op *op = push(out, *mark, pass);
    double gathered_bytes = input_bytes(mark, options);
    op->kind = kind;
    if (mark->dtype == DTYPE_FP8)
        op->comm_bytes = mark->m * mark->n *
                         (kind == OP_TENSOR_ENTER ? gathered_bytes : layer_element_bytes(options));
}

/* The output's gradient, of which both gradients are made. */
static void push_quantize(struct ops *out, const struct op *forward)
{
    struct op *op = push(out, *forward, PASS_BACKWARD_INPUT);
    op->kind = OP_QUANTIZE;
    op->flops = op->model_flops = op->comm_bytes = 0;
    op->k = 1;
    op->bytes = forward->backward_bytes;
    op->kernels = forward->backward_kernels;
}

/* dY (m x n) . W^T: m x k from n; times the derivative of the activation that made X, where that is
 * folded into the product before, at what this one kept. */
static void push_input_gradient(struct ops *out, const struct op *gemm, const struct op *folding,
                                const struct layer_options *options)
{
    struct op *op = push(out, *gemm, PASS_BACKWARD_INPUT);
    op->n = gemm->k;
    op->k = gemm->n;
    op->has_bias = false;
    op->variant = folding ? folding->variant : "";
    op->bytes = input_bytes(gemm, options) * (op->m * op->k + runs_of(gemm) * op->k * op->n) +
                layer_element_bytes(options) * op->m * op->n * (folding ? 2 : 1);
}

/* What reads the gradient anyway sums it, unless it reads fp8. */
static bool sums_bias(const struct op *gemm, const struct layer_options *options)
{
    return gemm->has_bias && gemm->dtype != DTYPE_FP8 && is_fused_in(options, FUSION_WGRAD_BIAS);
}

/* X^T . dY: n x k from m, added into the main gradient: by the product itself, which then reads and
 * writes the accumulator, or by a second kernel that also reads what the product wrote. The
 * bias's sums can't be added by the product: a small kernel reads them and updates the accumulator.
 */
static void push_weight_gradient(struct ops *out, const struct op *gemm,
                                 const struct layer_options *options)
{
    bool accumulates = is_fused_in(options, FUSION_WGRAD_ACCUMULATE);
    struct op *op = push(out, *gemm, PASS_BACKWARD_WEIGHT);
    op->m = gemm->n;
    op->n = gemm->k;
    op->k = gemm->m;
    double written_bytes =
        2 * options->gradient_bytes + (accumulates ? 0 : 2 * layer_element_bytes(options));
    op->bytes = input_bytes(gemm, options) * op->k * (op->m + op->n) +
                runs_of(gemm) * written_bytes * op->m * op->n;
    op->kernels = runs_of(gemm) * (accumulates ? 1 : 2);
    op->has_bias = sums_bias(gemm, options);
    op->variant = op->has_bias ? "bias_grad" : "";
    if (!op->has_bias)
        return;
    op->bytes += 4 * options->gradient_bytes * op->m;
    op->kernels++;
}

static void push_bias_gradient(struct ops *out, const struct op *gemm,
                               const struct layer_options *options)
{
    struct op *op = push(out, *gemm, PASS_BACKWARD_WEIGHT);
    op->kind = OP_BIAS_GRAD;
    op->variant = "";
    op->flops = op->model_flops = op->k = 0;
    op->bytes = layer_element_bytes(options) * gemm->m * gemm->n;
}

/* Under sequence parallelism the saved input is a shard and is gathered again for the weight
 * gradient; the mark between the two gradients is what may run beside the second one. */
static void push_gemm(struct ops *out, struct ops forward, int i, const struct op *enter,
                      const struct layer_options *options)
{
    const struct op *gemm = &forward.at[i];
    const struct op *folding = ops_folds_before(&forward, i) ? &forward.at[i - 1] : NULL;
    if (gemm->has_bias && !sums_bias(gemm, options))
        push_bias_gradient(out, gemm, options);
    if (gemm->backward_bytes > 0)
        push_quantize(out, gemm);
    if (enter)
        push_mark(out, enter, OP_TENSOR_ENTER, PASS_BACKWARD_WEIGHT, options);
    push_input_gradient(out, gemm, folding, options);
    if (enter)
        push_mark(out, enter, OP_TENSOR_LEAVE, PASS_BACKWARD_INPUT, options);
    push_weight_gradient(out, gemm, options);
}

static void push_traffic(struct ops *out, const struct op *forward, enum op_pass pass)
{
    struct op *op = push(out, *forward, pass);
    op->bytes = forward->backward_bytes;
    op->kernels = forward->backward_kernels;
    if (op->adds_stream)
        op->variant = "adds_stream";
}

/* The head's, when its logits are made a run of rows at a time and none were kept: those of a run
 * again, which no model counts, their gradients, and what is made of them. */
static void push_runs(struct ops *out, const struct op *logits, const struct op *loss,
                      const struct op *enter, const struct layer_options *options)
{
    if (enter)
        push_mark(out, enter, OP_TENSOR_ENTER, PASS_BACKWARD_WEIGHT, options);
    push(out, *logits, PASS_FORWARD)->model_flops = 0;
    push_traffic(out, loss, PASS_BACKWARD_INPUT);
    push_input_gradient(out, logits, NULL, options);
    push_weight_gradient(out, logits, options);
    if (enter)
        push_mark(out, enter, OP_TENSOR_LEAVE, PASS_BACKWARD_INPUT, options);
}

static const struct op *loss_of(struct ops forward)
{
    return &forward.at[forward.count - 1];
}

/* Two products of the forward's size for each of the forward's one. */
static void push_attention_product(struct ops *out, const struct op *product)
{
    for (int i = 0; i < 2; i++)
        push(out, *product, PASS_BACKWARD_INPUT);
}

/* Five products for the forward's two. */
static void push_flash(struct ops *out, const struct op *attention)
{
    struct op *op = push(out, *attention, PASS_BACKWARD_INPUT);
    op->flops = 2.5 * attention->flops;
    op->model_flops = 2 * attention->model_flops;
    op->bytes = attention->backward_bytes;
    op->kernels = attention->backward_kernels;
}

/* Emits the backward of forward.at[i]; returns how many forward ops it has dealt with. */
static int push_backward(struct ops *out, struct ops forward, int i,
                         const struct layer_options *options)
{
    const struct op *op = &forward.at[i];
    switch (op->kind) {
    case OP_GEMM: {
        bool entered = i > 0 && forward.at[i - 1].kind == OP_TENSOR_ENTER;
        const struct op *enter = entered ? &forward.at[i - 1] : NULL;
        if (op->chunks > 1)
            push_runs(out, op, loss_of(forward), enter, options);
        else
            push_gemm(out, forward, i, enter, options);
        return entered ? 2 : 1;
    }
    case OP_SCORES:
    case OP_CONTEXT:
        push_attention_product(out, op);
        return 1;
    case OP_FLASH_ATTENTION:
        push_flash(out, op);
        return 1;
    case OP_EMBEDDING:
        push_traffic(out, op, PASS_BACKWARD_WEIGHT);
        return 1;
    case OP_RESIDUAL:
        if (op->folded)
            push_traffic(out, op->folded, PASS_BACKWARD_INPUT);
        push_traffic(out, op, PASS_BACKWARD_INPUT);
        return 1;
    case OP_SOFTMAX:
    case OP_NORM:
    case OP_ACTIVATION:
    case OP_ROTARY:
        push_traffic(out, op, PASS_BACKWARD_INPUT);
        return 1;
    case OP_CROSS_ENTROPY: /* with chunks: where the logits are made again */
        if (op->chunks > 1)
            return 1;
        push_traffic(out, op, PASS_BACKWARD_INPUT);
        return 1;
    case OP_TENSOR_LEAVE:
        if (op->backward_bytes > 0)
            push_quantize(out, op);
        push_mark(out, op, OP_TENSOR_ENTER, PASS_BACKWARD_INPUT, options);
        return 1;
    case OP_TENSOR_ENTER:
        push_mark(out, op, OP_TENSOR_LEAVE, PASS_BACKWARD_INPUT, options);
        return 1;
    case OP_QUANTIZE: /* gradients pass as they are */
        return 1;
    case OP_CONTEXT_LEAVE:
        push_mark(out, op, OP_CONTEXT_ENTER, PASS_BACKWARD_INPUT, options);
        return 1;
    case OP_CONTEXT_ENTER:
        push_mark(out, op, OP_CONTEXT_LEAVE, PASS_BACKWARD_INPUT, options);
        return 1;
    case OP_ALL_REDUCE: /* of the loss: its gradient needs no exchange */
        return 1;
    case OP_BIAS_GRAD:
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
    case OP_ALL_TO_ALL:
    case OP_SEND_RECEIVE:
        break;
    }
    assert(0 && "not a forward op");
    return 1;
}

struct ops ops_backward(struct ops forward, const struct layer_options *options,
                        struct arena *arena)
{
    struct ops out = { .at = ARENA_ARRAY(arena, struct op,
                                         (size_t)(forward.count * MAX_BACKWARD_OPS_EACH)) };
    for (int i = forward.count - 1; i >= 0;)
        i -= push_backward(&out, forward, i, options);
    return out;
}
