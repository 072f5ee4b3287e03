#include "models/layer_part.h"

#include <assert.h>

enum { MAX_LAYER_OPS = 32 };

double layer_element_bytes(const struct layer_options *options)
{
    return options->dtype == DTYPE_FP32 ? 4 : 2;
}

bool is_fused(const struct builder *b, enum fusion fusion)
{
    return (b->options->fusions >> fusion & 1) != 0;
}

struct builder layer_begin(const struct model *model, const struct layer_dims *dims,
                           const struct layer_options *options, struct arena *arena)
{
    return (struct builder){
        .model = model,
        .dims = dims,
        .options = options,
        .element_bytes = layer_element_bytes(options),
        .arena = arena,
        .ops = { .at = ARENA_ARRAY(arena, struct op, MAX_LAYER_OPS) },
    };
}

struct op *add_op(struct builder *b, enum op_kind kind, const char *name, double m, double n)
{
    assert(b->ops.count < MAX_LAYER_OPS);
    struct op *op = &b->ops.at[b->ops.count];
    *op = (struct op){
        .kind = kind,
        .name = name,
        .variant = "",
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

void fold_last(struct builder *b, const char *variant)
{
    struct op *folded = ARENA_NEW(b->arena, struct op);
    *folded = b->ops.at[--b->ops.count];
    struct op *op = &b->ops.at[b->ops.count - 1];
    op->folded = folded;
    op->variant = variant;
    op->saved_bytes += folded->saved_bytes;
    op->bytes += b->element_bytes * folded->m * folded->n;
}

/* Reads the residual stream, writes as much, and keeps its input and fp32 statistics. The backward
 * reads input and gradient and writes a gradient; weight gradients are a small second kernel. */
void add_norm(struct builder *b, const char *name, double rows, double width)
{
    struct op *op = add_op(b, OP_NORM, name, rows, width);
    op->variant = norm_names[b->model->norm];
    double element_bytes = b->element_bytes;
    bool one_kernel = is_fused(b, FUSION_NORM) || is_fused(b, FUSION_RESIDUAL_NORM);
    double statistics_bytes = b->model->norm == NORM_LAYER ? 8 : 4;
    op->bytes = (one_kernel ? 2 : 6) * element_bytes * rows * width;
    op->backward_bytes = (one_kernel ? 4 : 10) * element_bytes * rows * width;
    op->kernels = one_kernel ? 1 : 5;
    op->backward_kernels = one_kernel ? 2 : 10;
    op->saved_bytes = rows * (element_bytes * width + statistics_bytes);
}

void add_stream_norm(struct builder *b, const char *name)
{
    add_norm(b, name, b->dims->norm_tokens, b->dims->hidden);
    struct op *op = &b->ops.at[b->ops.count - 1];
    op->adds_stream = is_fused(b, FUSION_RESIDUAL_NORM);
    op->backward_bytes += op->adds_stream ? b->element_bytes * op->m * op->n : 0;
}

struct op *add_mark(struct builder *b, enum op_kind kind, const char *name)
{
    struct op *op = add_op(b, kind, name, b->dims->tokens, b->dims->hidden);
    op->kernels = 0;
    op->comm_bytes = b->element_bytes * op->m * op->n;
    return op;
}

/* 2 FLOPs a multiply-add. Keeps its input: sequence-sharded when that is how it came. */
struct op *add_gemm(struct builder *b, const char *name, double width_out, double width_in,
                    bool column_parallel, bool bias)
{
    struct op *op = add_op(b, OP_GEMM, name, b->dims->tokens, width_out);
    double element_bytes = b->element_bytes;
    op->k = width_in;
    op->flops = op->model_flops = 2 * op->m * op->n * op->k;
    op->bytes = element_bytes * (op->m * op->k + op->k * op->n + op->m * op->n);
    op->column_parallel = column_parallel;
    op->has_bias = bias;
    op->saved_bytes = element_bytes * width_in * (column_parallel ? b->dims->norm_tokens : op->m);
    return op;
}

/* What comes next multiplies in fp8. Its weights are quantised once a step, outside the list. */
void add_quantize(struct builder *b, const char *name, double rows, double width)
{
    const struct fp8_recipe *recipe = b->options->fp8;
    if (!recipe)
        return;
    struct op *op = add_op(b, OP_QUANTIZE, name, rows, width);
    op->bytes = fp8_quantize_bytes(recipe, b->options->fp8_copies, rows * width);
    op->kernels = recipe->kernels;
}

/* Sequence-sharded tokens are quantised before they are gathered, and travel as such: forward here,
 * and the gradient of what leaves on its way back. */
void add_enter(struct builder *b, const char *name, const char *quantize_name)
{
    const struct layer_dims *d = b->dims;
    add_quantize(b, quantize_name, d->norm_tokens, d->hidden);
    struct op *op = add_mark(b, OP_TENSOR_ENTER, name);
    if (!b->options->fp8)
        return;
    op->dtype = DTYPE_FP8;
    op->comm_bytes = fp8_value_bytes(b->options->fp8) * op->m * op->n;
}

void add_leave(struct builder *b, const char *name)
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

/* The quantised input is kept along columns; the gradient of a column-parallel output is quantised
 * where it is, that of a row-parallel one before it is gathered. */
void add_linear(struct builder *b, const char *name, double width_out, double width_in,
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

/* Bias, dropout, add to the residual stream. Its backward unmasks the branch's gradient and adds
 * the two branches' gradients; where the norms add them, it copies one for the branch. */
void add_residual(struct builder *b, const char *name, bool bias)
{
    double element_bytes = b->element_bytes;
    bool dropout = b->model->dropout > 0;
    bool one_kernel = is_fused(b, FUSION_RESIDUAL) || is_fused(b, FUSION_RESIDUAL_NORM);
    struct op *op = add_op(b, OP_RESIDUAL, name, b->dims->norm_tokens, b->dims->hidden);
    op->variant = dropout ? "dropout" : "";
    double values = op->m * op->n;
    double separate = (bias ? 2 * element_bytes : 0) + (dropout ? 2 * element_bytes : 0);
    op->bytes = values * (3 * element_bytes + (dropout ? 1 : 0) + (one_kernel ? 0 : separate));
    bool norms_add = is_fused(b, FUSION_RESIDUAL_NORM);
    double branch_bytes = 2 * element_bytes + (dropout ? 1 : 0);
    op->backward_bytes =
        values * (norms_add ? branch_bytes : 3 * element_bytes + (dropout ? branch_bytes : 0));
    op->kernels = one_kernel ? 1 : 1 + (bias ? 1 : 0) + (dropout ? 1 : 0);
    op->backward_kernels = dropout && !norms_add ? 2 : 1;
    op->saved_bytes = dropout ? values : 0;
}
