/* The first half of a block: norm, attention, its projections and the residual. */
#include "models/layer_part.h"

static void add_rotary(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    struct op *op =
        add_op_in_place(b, OP_ROTARY, "rotary", d->tokens, (d->heads + d->kv_heads) * d->head_dim);
    op->bytes = op->backward_bytes = 2 * b->element_bytes * op->m * op->n;
    op->kernels = op->backward_kernels = 2; /* one kernel for queries, one for keys */
    if (!is_fused(b, FUSION_ROTARY))
        set_unfused(b, op, UNFUSED_ROTARY, op->m * op->n);
}

/* Transformer-XL's relative positions (Dai et al. 2019, section 3.3): every block multiplies the
 * sinusoids of all distances by W_k,R (hidden x heads head_dim). The results are further keys;
 * queries are multiplied by them as by the tokens' keys. The sinusoids are a constant that all
 * blocks share, and all sequences share the keys. Each head's two bias vectors, u and v, are left
 * out: they are 1e-5 of the parameters. Returns the id of the keys. */
static int add_relative_keys(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    struct linear keys = { .name = "relative_keys",
                           .rows = d->kv_seq,
                           .out = d->heads * d->head_dim,
                           .in = d->hidden,
                           .split = SPLIT_ROWS };
    int at_hand = b->value;
    b->value = operands_add_value(b->ops.operands, (struct op_value){ .form = VALUE_IDS });
    ids_add(&b->ops.aside, b->value);
    add_gemm(b, &keys);
    int made = b->value;
    b->value = at_hand;
    return made;
}

/* Adds one matrix product that computes queries, keys and values of all heads, and gates as wide as
 * the queries if the model has them. */
static void add_heads(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    const struct model *model = b->model;
    double query_width = (model->attention_gate ? 2 : 1) * d->heads * d->head_dim;
    struct linear qkv = { .name = "qkv",
                          .out = query_width + 2 * d->kv_heads * d->head_dim,
                          .in = d->hidden,
                          .split = SPLIT_ROWS,
                          .has_bias = model->linear_bias || model->qkv_bias,
                          .matrices = { query_width, d->kv_heads * d->head_dim,
                                        d->kv_heads * d->head_dim } };
    add_enter(b, "attention_enter", "qkv_input", d->hidden);
    add_linear(b, &qkv);
    b->ops.operands->values[b->value].form = VALUE_HEADS;
    if (model->qk_norm)
        add_head_norm(b, "qk_norm");
    if (model->positions == POSITION_ROTARY)
        add_rotary(b);
}

/* Multiplies the core's output by the sigmoids of the gates, which are part of `heads`
 * (Qwen3-Next). The backward reads both and a gradient, and writes two gradients. */
static void add_attention_gate(struct builder *b, int heads)
{
    if (!b->model->attention_gate)
        return;
    double width = b->dims->heads * b->dims->value_dim;
    struct op *op = add_op(b, OP_ACTIVATION, "attention_gate", b->dims->tokens, width);
    op->bytes = 3 * b->element_bytes * op->m * op->n;
    op->backward_bytes = 5 * b->element_bytes * op->m * op->n;
    ids_add(&op->in, heads);
    keep_input(b, op);
    keep(b, op, heads);
}

/* Linformer's projection of keys or values along the sequence (Wang et al. 2020, section 4): each
 * channel of each head is a row of kv_seq inputs, and all heads share the matrix. Returns the
 * projected rows. */
static int add_sequence_projection(struct builder *b, const char *name, int heads)
{
    const struct layer_dims *d = b->dims;
    struct linear projection = { .name = name,
                                 .rows = d->batch * d->kv_heads * d->head_dim,
                                 .out = b->model->attention_rank,
                                 .in = d->kv_seq,
                                 .summed = SUMMED_OVER_HEADS };
    b->value = heads;
    add_gemm(b, &projection);
    return b->value;
}

/* The output projection, which also adds attention's result to the residual stream. */
static void add_projection(struct builder *b, const char *quantize, const char *name,
                           const char *leave)
{
    struct linear projection = { .name = name,
                                 .out = b->dims->hidden,
                                 .in = b->dims->heads * b->dims->value_dim,
                                 .split = SPLIT_COLUMNS,
                                 .has_bias = b->model->linear_bias || b->model->out_bias };
    add_quantize(b, quantize, b->dims->tokens, projection.in);
    add_linear(b, &projection);
    add_leave(b, leave);
}

static const struct attention_inputs no_inputs = {
    .relative_keys = NO_ID, .keys = NO_ID, .values = NO_ID, .chosen = NO_ID
};

/* The inputs of core attention besides `heads`, which are the queries, keys and values of the
 * block's own tokens. */
static struct attention_inputs inputs_beside(struct builder *b, int heads)
{
    struct attention_inputs inputs = no_inputs;
    inputs.has_bias = b->model->positions == POSITION_RELATIVE;
    if (b->model->positions == POSITION_TRANSFORMER_XL)
        inputs.relative_keys = add_relative_keys(b);
    if (b->model->attention == ATTENTION_LOW_RANK) {
        inputs.is_apart = true;
        inputs.keys = add_sequence_projection(b, "key_projection", heads);
        inputs.values = add_sequence_projection(b, "value_projection", heads);
        b->value = heads;
    }
    return inputs;
}

/* A decoder's second attention, to the encoder's output (Raffel et al. 2020): queries are projected
 * from the block's rows, keys and values from the encoder's. All blocks read the same rows of the
 * encoder, so these rows are kept once, by the encoder. */
static void add_cross_attention(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    bool has_bias = b->model->linear_bias || b->model->qkv_bias;
    struct linear query = { .name = "cross_query",
                            .out = d->heads * d->head_dim,
                            .in = d->hidden,
                            .split = SPLIT_ROWS,
                            .has_bias = has_bias };
    struct linear keys = { .name = "cross_keys",
                           .out = 2 * d->kv_heads * d->head_dim,
                           .in = d->hidden,
                           .split = SPLIT_ROWS,
                           .has_bias = has_bias };
    struct attention_inputs inputs = no_inputs;
    add_input(b, 0, 0);
    ids_add(&b->ops.aside, b->value);
    add_enter(b, "encoder_enter", "encoder_input", d->hidden);
    add_linear(b, &keys);
    inputs.is_apart = inputs.is_other_sequence = true;
    inputs.keys = inputs.values = b->value;
    begin_part(b, "cross_norm", false);
    add_enter(b, "cross_enter", "cross_input", d->hidden);
    add_linear(b, &query);
    add_attention_core(b, &inputs);
    add_projection(b, "cross_projection_input", "cross_projection", "cross_leave");
    end_part(b, "cross_after_norm", "cross_residual");
}

void add_attention_block(struct builder *b)
{
    bool is_sparse = b->model->attention == ATTENTION_SPARSE;
    struct latent_rows from = { NO_ID, NO_ID };
    struct indexer indexer = { NO_ID, NO_ID, 0 };
    begin_part(b, "attention_norm", b->model->kv_lora > 0);
    if (b->model->kv_lora > 0)
        add_latent_heads(b, &from);
    else
        add_heads(b);
    int heads = b->value;
    struct attention_inputs inputs = inputs_beside(b, heads);
    if (is_sparse) {
        indexer = add_indexer(b, &from);
        inputs.chosen = indexer.chosen;
    }
    add_attention_core(b, &inputs);
    if (is_sparse)
        add_index_loss(b, &indexer, heads);
    add_attention_gate(b, heads);
    add_projection(b, "projection_input", "projection", "attention_leave");
    end_part(b, "attention_after_norm", "attention_residual");
    if (b->model->attention == ATTENTION_CROSS)
        add_cross_attention(b);
}
