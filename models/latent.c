/* Latent attention (MLA): queries, keys and values are projected from compressed rows (DeepSeek-AI
 * 2024, DeepSeek-V2, 2.1). This is the training form: no matrix product is absorbed into another.
 *
 * Each tensor rank has the whole down-projections and applies them to its own rows; the compressed
 * rows enter the tensor-parallel region, instead of the hidden rows (Megatron Core,
 * transformer/multi_latent_attention.py). Rotary angles rotate qk_rope_dim channels of each query
 * head and of one key that all heads share. That key enters the region separately because no
 * product reads it: its gather is not repeated for a weight gradient or when the up-projections are
 * recomputed. */
#include "models/layer_part.h"

/* Two kernels rotate queries and the shared key. Two more join the channels with and without rotary
 * angles, one for queries and one for keys (Megatron Core,
 * transformer/multi_latent_attention.py). */
enum { HEADS_KERNELS = 4 };

/* A down-projection: a product of the rank's own rows with a matrix that every tensor rank holds
 * whole. */
static void add_down(struct builder *b, const char *name, double width)
{
    struct linear down = { .name = name,
                           .out = width,
                           .in = b->dims->hidden,
                           .rows = b->dims->norm_tokens,
                           .summed = SUMMED_OVER_TOKENS };
    add_linear(b, &down);
}

/* An up-projection: the product from rows of `width`, which entered the tensor region, to this
 * rank's heads. */
static int add_up(struct builder *b, const char *name, double width, double head_width)
{
    struct linear up = {
        .name = name, .out = b->dims->heads * head_width, .in = width, .split = SPLIT_ROWS
    };
    add_linear(b, &up);
    b->region = REGION_REST;
    return b->value;
}

/* Makes queries from the current hidden rows, which are quantised already if there is a recipe
 * (quantised linear layers). `from` gets the rows that enter the tensor-parallel region. */
static int add_queries(struct builder *b, int *from)
{
    const struct layer_dims *d = b->dims;
    double width = b->model->q_lora;
    if (width == 0) {
        *from = b->value;
        b->region = REGION_LATENT_UP;
        add_quantized_enter(b, "q_enter", d->hidden);
        return add_up(b, "q", d->hidden, d->head_dim);
    }
    add_down(b, "q_down", width);
    add_norm(b, "q_norm", d->norm_tokens, width);
    b->region = REGION_LATENT_UP;
    add_quantize(b, "q_input", d->norm_tokens, width);
    *from = b->value;
    add_quantized_enter(b, "q_enter", width);
    return add_up(b, "q_up", width, d->head_dim);
}

/* Makes keys and values from the compressed channels of the down-projection's output, `down`. */
static int add_keys(struct builder *b, int down)
{
    double width = b->model->kv_lora;
    b->value = down;
    add_norm(b, "kv_norm", b->dims->norm_tokens, width);
    b->region = REGION_LATENT_UP;
    add_enter(b, "kv_enter", "kv_input", width);
    return add_up(b, "kv_up", width, b->model->qk_nope_dim + b->dims->value_dim);
}

/* The key that all heads share is the other channels of the down-projection's output. No product
 * reads it, so it is not quantised. */
static int add_shared_key(struct builder *b, int down)
{
    b->value = down;
    add_mark(b, OP_TENSOR_ENTER, "key_enter", b->model->qk_rope_dim);
    return b->value;
}

void add_latent_heads(struct builder *b, struct latent_rows *from)
{
    const struct layer_dims *d = b->dims;
    const struct model *model = b->model;
    double up_width = model->qk_nope_dim + d->value_dim;
    double head_width = 2 * d->head_dim + d->value_dim;
    add_quantize(b, "latent_input", d->norm_tokens, d->hidden);
    from->hidden = b->value;
    int queries = add_queries(b, &from->queries);
    b->value = from->hidden;
    add_down(b, "kv_down", model->kv_lora + model->qk_rope_dim);
    int down = b->value;
    int keys = add_keys(b, down);
    int shared = add_shared_key(b, down);
    b->value = keys;
    b->region = REGION_LATENT_UP;
    struct op *op = add_op(b, OP_HEADS, "latent_heads", d->tokens, d->heads * head_width);
    ids_add(&op->in, queries);
    ids_add(&op->in, shared);
    op->bytes = op->backward_bytes =
        b->element_bytes * d->tokens *
        (d->heads * (d->head_dim + up_width + head_width) + model->qk_rope_dim);
    op->kernels = op->backward_kernels = HEADS_KERNELS;
    b->region = REGION_REST;
}
