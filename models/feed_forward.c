/* The second half of a block: norm, two linear layers around the activation, the residual. */
#include "models/layer_part.h"

static void add_activation(struct builder *b)
{
    double element_bytes = b->element_bytes;
    double inputs = model_is_gated(b->model) ? 2 : 1;
    struct op *op = add_op(b, OP_ACTIVATION, "activation", b->dims->tokens, b->dims->ffn);
    op->which = (short)b->model->activation;
    op->variant = activation_names[b->model->activation];
    double values = op->m * op->n;
    op->bytes = values * element_bytes * (inputs + 1);
    op->backward_bytes = values * element_bytes * (2 * inputs + 1);
    if (!is_fused(b, FUSION_BIAS_GELU))
        set_unfused(b, op, model_is_gated(b->model) ? UNFUSED_GATE : UNFUSED_ACTIVATION, values);
    keep_input(b, op);
}

void add_feed_forward_block(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    bool bias = b->model->linear_bias;
    double inputs = model_is_gated(b->model) ? 2 : 1;
    struct linear fc1 = { .name = "fc1",
                          .out = inputs * d->ffn,
                          .in = d->hidden,
                          .split = SPLIT_ROWS,
                          .has_bias = bias };
    struct linear fc2 = {
        .name = "fc2", .out = d->hidden, .in = d->ffn, .split = SPLIT_COLUMNS, .has_bias = bias
    };
    for (int i = 0; i < (int)inputs; i++)
        fc1.matrices[i] = d->ffn;
    b->value = b->stream;
    add_norm(b, "ffn_norm", d->norm_tokens, d->hidden)->region = REGION_NORM;
    b->region = REGION_FEED_FORWARD;
    add_enter(b, "ffn_enter", "fc1_input");
    add_linear(b, &fc1);
    add_activation(b);
    add_quantize(b, "fc2_input", d->tokens, d->ffn);
    add_linear(b, &fc2);
    add_leave(b, "ffn_leave");
    b->region = REGION_REST;
    add_residual(b, "ffn_residual");
}
