/* Merges ops that one kernel executes together, in forward and backward lists. Such ops are found
 * by their operands. */
#include "models/layer_part.h"

/* Merges the op at `what` into the op at `by`, whose output it reads. The merged op writes both
 * outputs. */
static void take_in(struct ops *ops, int by, int what)
{
    struct op *op = &ops->at[by];
    const struct op *taken = &ops->at[what];
    for (int i = 0; i < taken->out.count; i++)
        ids_add(&op->out, taken->out.at[i]);
    for (int i = 0; i < taken->weights.count; i++)
        ids_add(&op->weights, taken->weights.at[i]);
    for (int i = 0; i < taken->saved.count; i++)
        ids_add(&op->saved, taken->saved.at[i]);
    ops->count--;
    for (int i = what; i < ops->count; i++) {
        ops->at[i] = ops->at[i + 1];
        ops->at[i].after = i - 1;
    }
}

static double written_bytes(const struct op *op, const struct layer_options *options)
{
    return layer_element_bytes(options) * op->m * op->n;
}

static bool is_kind(const struct ops *ops, int i, enum op_kind kind)
{
    return i < ops->count && ops->at[i].kind == kind;
}

/* Fuses a norm into the residual sum before it. */
static void fuse_norm(struct ops *ops, int i, const struct layer_options *options)
{
    struct op *sum = &ops->at[i];
    int norm = ops_next_reader(ops, sum->out.at[0], i);
    if (sum->pass != PASS_FORWARD || !is_kind(ops, norm, OP_NORM) ||
        ops->at[norm].m * ops->at[norm].n != sum->m * sum->n)
        return;
    sum->variant = sum->variant[0] ? "dropout_norm" : "norm";
    sum->which = ops->at[norm].which;
    sum->bytes += written_bytes(&ops->at[norm], options);
    take_in(ops, i, norm);
}

/* Whether the op is an ungated gelu between products in 16 or 32 bits. */
static bool is_plain_gelu(const struct ops *ops, int i)
{
    return is_kind(ops, i, OP_ACTIVATION) && ops->at[i].which == ACTIVATION_GELU;
}

static bool is_product(const struct ops *ops, int i)
{
    return is_kind(ops, i, OP_GEMM) && !dtype_is_quantized(ops->at[i].dtype);
}

static bool has_one_reader(const struct ops *ops, int value)
{
    return ops_readers(ops, value) == 1;
}

/* Fuses gelu into the epilogue of the product before it. */
static void fuse_gelu(struct ops *ops, int i, const struct layer_options *options)
{
    struct op *product = &ops->at[i];
    int gelu = ops_next_reader(ops, product->out.at[0], i);
    if (!is_plain_gelu(ops, gelu) || !has_one_reader(ops, product->out.at[0]))
        return;
    int made = ops->at[gelu].out.at[0];
    if (!is_product(ops, ops_next_reader(ops, made, gelu)) || !has_one_reader(ops, made))
        return;
    product->variant = ops->at[gelu].variant;
    product->bytes += written_bytes(&ops->at[gelu], options);
    take_in(ops, i, gelu);
}

/* Fuses gelu's derivative into the epilogue of the input gradient's product. The product then reads
 * the gradient and the activation's input, in this order. */
static void fuse_derivative(struct ops *ops, int i, const struct layer_options *options)
{
    struct op *product = &ops->at[i];
    int gelu = ops_next_reader(ops, product->out.at[0], i);
    if (!is_plain_gelu(ops, gelu))
        return;
    product->variant = ops->at[gelu].variant;
    product->bytes += written_bytes(product, options);
    ids_add(&product->in, ops->at[gelu].in.at[1]);
    product->out.count = 0;
    take_in(ops, i, gelu);
}

struct ops ops_fuse(struct ops ops, const struct layer_options *options)
{
    for (int i = 0; i < ops.count; i++) {
        const struct op *op = &ops.at[i];
        if (op->kind == OP_RESIDUAL && options->fusions >> FUSION_RESIDUAL_NORM & 1)
            fuse_norm(&ops, i, options);
        if (!is_product(&ops, i) || !(options->fusions >> FUSION_GEMM_GELU & 1))
            continue;
        if (op->pass == PASS_FORWARD)
            fuse_gelu(&ops, i, options);
        else if (op->pass == PASS_BACKWARD_INPUT)
            fuse_derivative(&ops, i, options);
    }
    return ops;
}
