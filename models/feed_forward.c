/* The second half of a block: norm, two linear layers around the activation, the residual. */
#include "models/layer_part.h"

static void add_activation(struct builder *b)
{
    double element_bytes = b->element_bytes;
    double inputs = model_is_gated(b->model) ? 2 : 1;
    bool one_kernel = is_fused(b, FUSION_BIAS_GELU);
    struct op *op = add_op(b, OP_ACTIVATION, "activation", b->dims->tokens, b->dims->ffn);
    op->variant = activation_names[b->model->activation];
    double values = op->m * op->n;
    op->bytes = values * element_bytes * (one_kernel ? inputs + 1 : 2 * inputs + 3);
    op->backward_bytes = values * element_bytes * (one_kernel ? 2 * inputs + 1 : 3 * inputs + 3);
    op->kernels = op->backward_kernels = one_kernel ? 1 : inputs + 1;
    op->saved_bytes = values * element_bytes * inputs;
}

static bool folds_activation(const struct builder *b)
{
    return is_fused(b, FUSION_GEMM_GELU) && b->model->activation == ACTIVATION_GELU &&
           !b->options->fp8;
}

void add_feed_forward_block(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    bool bias = b->model->linear_bias;
    double inputs = model_is_gated(b->model) ? 2 : 1;
    add_stream_norm(b, "ffn_norm");
    if (is_fused(b, FUSION_RESIDUAL_NORM))
        fold_last(b, b->model->dropout > 0 ? "dropout_norm" : "norm");
    add_enter(b, "ffn_enter", "fc1_input");
    add_linear(b, "fc1", inputs * d->ffn, d->hidden, true, bias);
    add_activation(b);
    if (folds_activation(b))
        fold_last(b, activation_names[b->model->activation]);
    add_quantize(b, "fc2_input", d->tokens, d->ffn);
    add_linear(b, "fc2", d->hidden, d->ffn, false, bias);
    add_leave(b, "ffn_leave");
    add_residual(b, "ffn_residual", bias);
}
