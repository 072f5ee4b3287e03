/* Latent attention (MLA): queries, keys and values from compressed rows (DeepSeek-AI 2024,
 * DeepSeek-V2, 2.1), as it is trained: no product is absorbed into another.
 *
 * The products down to the compressed widths are whole on each tensor rank and take its own rows;
 * their outputs enter the tensor region, not the hidden rows (Megatron Core,
 * transformer/multi_latent_attention.py). Rotary angles turn qk_rope_dim channels of each query
 * head, and of one key that all heads share. */
#include "models/layer_part.h"

/* Kernels that turn queries, turn the shared key, and put keys and values together. */
enum { HEADS_KERNELS = 4 };

/* A product of the rank's own rows with a matrix that all tensor ranks hold. */
static void add_down(struct builder *b, const char *name, double width)
{
    struct linear down = { .name = name,
                           .out = width,
                           .in = b->dims->hidden,
                           .rows = b->dims->norm_tokens,
                           .summed = SUMMED_OVER_TOKENS };
    add_linear(b, &down);
}

/* The product from `width` channels of entered rows to the heads of this rank. */
static void add_up(struct builder *b, const char *name, double width, double head_width)
{
    struct linear up = {
        .name = name, .out = b->dims->heads * head_width, .in = width, .split = SPLIT_ROWS
    };
    b->region = REGION_LATENT_UP;
    add_linear(b, &up);
    b->region = REGION_REST;
}

/* Queries from the hidden rows at hand, which are quantised if anything is. */
static int add_queries(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    double width = b->model->q_lora;
    if (width == 0) {
        add_quantized_enter(b, "q_enter", d->hidden);
        add_up(b, "q", d->hidden, d->head_dim);
        return b->value;
    }
    add_down(b, "q_down", width);
    add_norm(b, "q_norm", d->norm_tokens, width);
    add_enter(b, "q_enter", "q_input", width);
    add_up(b, "q_up", width, d->head_dim);
    return b->value;
}

/* Norms the compressed channels in place; the shared key behind them stays as it is. */
static void add_latent_norm(struct builder *b, double width)
{
    double rows_bytes = b->element_bytes * b->dims->norm_tokens * width;
    add_norm(b, "kv_norm", b->dims->norm_tokens, b->model->kv_lora);
    b->ops.operands->values[b->value].bytes = rows_bytes;
}

void add_latent_heads(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    const struct model *model = b->model;
    double width = model->kv_lora + model->qk_rope_dim;
    double up_width = model->qk_nope_dim + d->value_dim;
    add_quantize(b, "latent_input", d->norm_tokens, d->hidden);
    int rows = b->value;
    int queries = add_queries(b);
    b->value = rows;
    add_down(b, "kv_down", width);
    add_latent_norm(b, width);
    add_enter(b, "kv_enter", "kv_input", width);
    int latent = b->value;
    add_up(b, "kv_up", model->kv_lora, up_width);
    double head_width = 2 * d->head_dim + d->value_dim;
    b->region = REGION_LATENT_UP;
    struct op *op = add_op(b, OP_HEADS, "latent_heads", d->tokens, d->heads * head_width);
    ids_add(&op->in, queries);
    ids_add(&op->in, latent);
    op->bytes = op->backward_bytes =
        b->element_bytes * d->tokens *
        (d->heads * (d->head_dim + up_width + head_width) + model->qk_rope_dim);
    op->kernels = op->backward_kernels = HEADS_KERNELS;
    b->region = REGION_REST;
}
