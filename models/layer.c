/* The op list of a block, the sizes of a layer, and the FLOPs of a step. */
#include "models/layer.h"

#include "models/blocks.h"
#include "models/layer_part.h"
#include "models/trainable.h"

const char *const fusion_names[NUM_FUSIONS + 1] = {
    "bias_gelu", "residual",         "residual_norm", "softmax",    "cross_entropy",
    "rotary",    "wgrad_accumulate", "norm",          "wgrad_bias", "gemm_gelu",
    NULL,
};

void layer_add_block(struct builder *b)
{
    b->stream = b->entered = b->value;
    b->normed = b->branch = NO_ID;
    add_mixer_block(b);
    if (b->model->feed_forward == FEED_FORWARD_EXPERTS)
        add_expert_block(b);
    else if (b->model->feed_forward == FEED_FORWARD_DENSE)
        add_feed_forward_block(b);
    b->ops.output = (short)b->stream;
}

struct ops layer_forward(const struct model *model, const struct layer_dims *dims,
                         const struct layer_options *options, struct arena *arena)
{
    struct builder b = layer_begin(model, dims, options, arena);
    b.ops.input = (short)add_input(&b, dims->norm_tokens, dims->hidden);
    b.ops.is_input_constant = model->gradient != GRADIENT_WHOLE;
    layer_add_block(&b);
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
        .hidden_columns = model->hidden,
        .heads = model->heads,
        .kv_heads = model->kv_heads,
        .head_dim = model->head_dim,
        .mixer_key_heads = model->linear_key_heads,
        .mixer_value_heads = model->linear_value_heads,
        .value_dim = model->kv_lora > 0 ? model->v_head_dim : model->head_dim,
        .ffn = model->ffn,
        .experts = model->experts,
        .sent_rows = batch * seq * model->topk,
        .message_rows = batch * seq * model->topk,
        .expert_rows = batch * seq * model->topk,
        .expert_ffn = model->expert_ffn,
        .shared_ffn = model->shared_ffn,
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

struct forward_flops {
    double layers, head;
    double later; /* FLOPs of all multi-token-prediction modules, with their heads */
};

/* Forward FLOPs of one sequence. */
static struct forward_flops forward_flops(const struct model *model, double seq)
{
    struct arena arena = { 0 };
    struct layer_dims dims = layer_dims(model, 1, seq);
    struct layer_options options = { .flash_attention = true, .dtype = DTYPE_BF16 };
    struct forward_flops flops = { 0 };
    int counts[MAX_BLOCK_KINDS];
    model_count_kinds(model, 0, model->layers, counts);
    for (int kind = 0; kind < model_num_kinds(model); kind++) {
        struct model of = model_of_kind(model, kind);
        struct layer_dims widths = layer_dims(&of, 1, seq);
        flops.layers +=
            counts[kind] * ops_model_flops(layer_forward(&of, &widths, &options, &arena));
    }
    flops.head = ops_model_flops(head_forward(model, &dims, &options, &arena));
    if (model->mtp > 0) {
        struct model of = model_of_later(model);
        struct layer_dims widths = layer_dims(&of, 1, seq);
        double module = ops_model_flops(later_forward(&of, &widths, &options, &arena));
        flops.later = model->mtp * (module + flops.head);
    }
    arena_release(&arena);
    return flops;
}

/* FLOPs of the forward and of the backward; the backward makes only the gradients that trained
 * weights need. */
static double both_flops(struct ops forward, const struct layer_options *options,
                         struct arena *arena)
{
    return ops_model_flops(forward) + ops_model_flops(ops_backward(forward, options, arena));
}

/* FLOPs of a step per sequence when only some weights are trained. */
static double partial_flops(const struct model *model, double seq)
{
    struct arena arena = { 0 };
    struct layer_dims dims = layer_dims(model, 1, seq);
    struct layer_options options = { .flash_attention = true, .dtype = DTYPE_BF16 };
    int counts[MAX_BLOCK_KINDS];
    model_count_kinds(model, 0, model->layers, counts);
    double head = both_flops(head_forward(model, &dims, &options, &arena), &options, &arena);
    double flops = (1 + model->mtp) * head;
    if (model->mtp > 0) {
        struct model of = model_of_later(model);
        struct layer_dims widths = layer_dims(&of, 1, seq);
        flops += model->mtp *
                 both_flops(later_forward(&of, &widths, &options, &arena), &options, &arena);
    }
    for (int kind = 0; kind < model_num_kinds(model); kind++) {
        struct model of = model_of_kind(model, kind);
        struct layer_dims widths = layer_dims(&of, 1, seq);
        flops += counts[kind] *
                 both_flops(layer_forward(&of, &widths, &options, &arena), &options, &arena);
    }
    arena_release(&arena);
    return flops;
}

/* If all weights are trained, the backward has twice the forward's FLOPs, as each product has two
 * gradients. */
double model_step_flops(const struct model *model, double sequences, double seq)
{
    if (!model_trains_all(model))
        return sequences * partial_flops(model, seq);
    struct forward_flops flops = forward_flops(model, seq);
    return 3 * sequences * (flops.layers + flops.head + flops.later);
}

double model_matrix_parameters(const struct model *model)
{
    struct arena arena = { 0 };
    struct layer_options options = { .flash_attention = true, .dtype = DTYPE_BF16 };
    int counts[MAX_BLOCK_KINDS];
    double parameters = 0;
    model_count_kinds(model, 0, model->layers, counts);
    for (int kind = 0; kind < model_num_kinds(model); kind++) {
        struct model of = model_of_kind(model, kind);
        struct layer_dims widths = layer_dims(&of, 1, model->seq);
        struct ops list = layer_forward(&of, &widths, &options, &arena);
        for (int i = 0; i < list.operands->num_weights; i++) {
            const struct op_weight *weight = &list.operands->weights[i];
            if (weight->role == WEIGHT_MATRIX)
                parameters += counts[kind] * weight->rows * weight->columns;
        }
    }
    arena_release(&arena);
    return parameters;
}

double model_head_layers(const struct model *model, double seq)
{
    struct forward_flops flops = forward_flops(model, seq);
    return flops.head * model->layers / flops.layers;
}
