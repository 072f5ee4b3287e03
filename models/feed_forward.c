/* The second half of a block: norm, two linear layers around the activation, the residual. */
#include "models/layer_part.h"

/* Keeps the activation's input for the backward in the type that the options state. The forward
 * then writes the input in that type, and the backward reads it in that type. */
static void store_input(struct builder *b, struct op *op)
{
    int value = op->saved.at[op->saved.count - 1];
    double written_bytes = store_as(b, value, b->options->stores.activations);
    op->bytes += written_bytes;
    if (written_bytes > 0)
        op->backward_bytes -= b->ops.operands->values[value].bytes - written_bytes;
}

struct op *add_activation(struct builder *b, const char *name, double rows, double width)
{
    double element_bytes = b->element_bytes;
    double inputs = model_is_gated(b->model) ? 2 : 1;
    struct op *op = add_op(b, OP_ACTIVATION, name, rows, width);
    op->which = (short)b->model->activation;
    op->variant = activation_names[b->model->activation];
    double values = op->m * op->n;
    op->bytes = values * element_bytes * (inputs + 1);
    op->backward_bytes = values * element_bytes * (2 * inputs + 1);
    if (!is_fused(b, FUSION_BIAS_GELU))
        set_unfused(b, op, model_is_gated(b->model) ? UNFUSED_GATE : UNFUSED_ACTIVATION, values);
    keep_input(b, op);
    store_input(b, op);
    return op;
}

void add_feed_forward(struct builder *b, const struct feed_forward *of)
{
    const struct layer_dims *d = b->dims;
    double inputs = model_is_gated(b->model) ? 2 : 1;
    struct linear fc1 = { .name = of->fc1,
                          .out = inputs * of->width,
                          .in = d->hidden,
                          .split = SPLIT_ROWS,
                          .has_bias = of->has_bias };
    struct linear fc2 = { .name = of->fc2,
                          .out = d->hidden,
                          .in = of->width,
                          .split = SPLIT_COLUMNS,
                          .has_bias = of->has_bias };
    for (int i = 0; i < (int)inputs; i++)
        fc1.matrices[i] = of->width;
    add_enter(b, of->enter, of->input, d->hidden);
    add_linear(b, &fc1);
    add_activation(b, of->activation, d->tokens, of->width);
    add_quantize(b, of->middle, d->tokens, of->width);
    add_linear(b, &fc2);
    add_leave(b, of->leave);
}

void add_feed_forward_block(struct builder *b)
{
    struct feed_forward of = { .enter = "ffn_enter",
                               .input = "fc1_input",
                               .fc1 = "fc1",
                               .activation = "activation",
                               .middle = "fc2_input",
                               .fc2 = "fc2",
                               .leave = "ffn_leave",
                               .width = b->dims->ffn,
                               .has_bias = b->model->linear_bias || b->model->ffn_bias };
    begin_part(b, "ffn_norm", false);
    b->region = REGION_FEED_FORWARD;
    add_feed_forward(b, &of);
    b->region = REGION_REST;
    end_part(b, "ffn_after_norm", "ffn_residual");
}
