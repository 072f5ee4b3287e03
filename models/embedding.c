/* Ops of the token embedding, with their memory traffic, and of the start of a decoder. */
#include "models/blocks.h"
#include "models/layer_part.h"

/* The embedding gathers token rows, adds positions and token types, and applies dropout. If tensor
 * ranks split the vocabulary, the output is partial sums. The op keeps the 8-byte token ids.
 * Traffic: each row is read and written once; each further table needs a gather and a sum. The
 * backward reads the gradient, reads and writes the table's gradient, and sorts the ids. It has two
 * kernels per forward kernel: a sort, and a sum of equal rows (PyTorch,
 * aten/src/ATen/native/cuda/Embedding.cu; the short launches within the library's sort are left
 * out). */
static struct op *add_lookup(struct builder *b, const char *name)
{
    const struct layer_dims *dims = b->dims;
    double row_bytes = b->element_bytes * dims->hidden;
    int further = (b->model->positions == POSITION_LEARNED) + (b->model->token_types > 0);
    add_input(b, 0, 0);
    b->ops.operands->values[b->value] =
        (struct op_value){ .bytes = 8 * dims->tokens, .form = VALUE_IDS };
    struct op *op = add_op(b, OP_EMBEDDING, name, dims->tokens, dims->hidden);
    op->k = dims->vocab;
    op->bytes = dims->tokens * (8 + row_bytes * (2 + 3 * further));
    op->backward_bytes = dims->tokens * row_bytes * 4;
    op->kernels = 1 + 2 * further;
    op->backward_kernels = 2 * op->kernels;
    keep_input(b, op);
    return op;
}

static void add_tables(struct builder *b, struct op *op)
{
    struct op_weight *table = add_weight(b, op, WEIGHT_TABLE, op->k, op->n);
    table->split = SPLIT_ROWS;
    table->is_vocabulary = true;
    if (b->model->positions == POSITION_LEARNED)
        add_weight(b, op, WEIGHT_POSITIONS, b->model->max_positions, op->n);
    if (b->model->token_types > 0)
        add_weight(b, op, WEIGHT_POSITIONS, b->model->token_types, op->n);
}

/* The sum over tensor ranks, norm and dropout after a look-up. */
static void finish_lookup(struct builder *b)
{
    add_mark(b, OP_TENSOR_LEAVE, "embedding_leave", b->dims->hidden);
    if (b->model->embedding_norm)
        add_norm(b, "embedding_norm", b->dims->norm_tokens, b->dims->hidden);
    if (b->model->dropout > 0)
        add_residual(b, "embedding_dropout");
}

/* The biases of relative positions (Raffel et al. 2020, section 2.1). For every query and key, the
 * op looks up the row of the range in which their distance lies. All blocks of a stack add these
 * biases to their scores. */
static void add_relative_bias(struct builder *b, const char *name)
{
    const struct layer_dims *d = b->dims;
    int current = b->value;
    b->value = operands_add_value(b->ops.operands, (struct op_value){ .form = VALUE_IDS });
    struct op *op = add_op(b, OP_EMBEDDING, name, d->seq * d->kv_seq, d->heads);
    op->k = b->model->relative_buckets;
    op->bytes = op->backward_bytes = 2 * b->element_bytes * op->m * op->n;
    op->backward_kernels = 2;
    ids_add(&op->saved, b->value);
    add_weight(b, op, WEIGHT_POSITIONS, op->k, op->n)->split = SPLIT_COLUMNS;
    b->value = current;
}

/* Adds the ops between an encoder and a decoder: the norm of the encoder's output, which every
 * block of the decoder reads, and the look-up of the decoder's tokens in the same table. */
static void add_decoder_start(struct builder *b, const struct op *lookup)
{
    add_input(b, b->dims->norm_tokens, b->dims->hidden);
    ids_add(&b->ops.aside, b->value);
    struct op *norm = add_norm(b, "encoder_norm", b->dims->norm_tokens, b->dims->hidden);
    ids_add(&norm->saved, b->value);
    struct op *second = add_lookup(b, "decoder_embedding");
    for (int i = 0; i < lookup->weights.count; i++)
        ids_add(&second->weights, lookup->weights.at[i]);
    finish_lookup(b);
}

struct ops embedding_forward(const struct model *model, const struct layer_dims *dims,
                             const struct layer_options *options, struct arena *arena)
{
    struct builder b = layer_begin(model, dims, options, arena);
    b.place = WEIGHT_OF_EMBEDDING;
    struct op *lookup = add_lookup(&b, "embedding");
    add_tables(&b, lookup);
    finish_lookup(&b);
    bool has_decoder = model_has_attention(model, ATTENTION_CROSS);
    if (model->positions == POSITION_RELATIVE)
        add_relative_bias(&b, has_decoder ? "encoder_bias" : "relative_bias");
    if (has_decoder)
        add_decoder_start(&b, lookup);
    if (has_decoder && model->positions == POSITION_RELATIVE)
        add_relative_bias(&b, "decoder_bias");
    b.ops.output = (short)b.value;
    return b.ops;
}
