/* The indexer of sparse attention (DeepSeek-AI 2025, DeepSeek-V3.2-Exp, 2.1): for each token it
 * chooses the index_topk earlier keys to which all heads attend.
 *
 * Every tensor rank holds the whole indexer and applies it to all tokens (Megatron Core,
 * transformer/experimental_attention_variant/dsa.py: duplicated projections, gathered inputs). It
 * is trained by a loss of its own, the distance of its scores from attention's probabilities of the
 * chosen keys, and passes no gradient on to its inputs. This is the stage in which attention
 * already reads only chosen keys; the dense warm-up before it is not modelled. */
#include "models/layer_part.h"

#include "models/documents.h"

/* fp32 scores and probabilities; places of 32 bits */
enum { SCORE_BYTES = 4, CHOSEN_BYTES = 4 };

/* Two kernels rotate queries and keys, and two multiply them by a Hadamard matrix. */
enum { HEADS_KERNELS = 4 };

/* Rows that enter the tensor-parallel region for the indexer alone. */
static int enter_detached(struct builder *b, const char *name, int rows, double width)
{
    b->value = rows;
    add_quantized_enter(b, name, width);
    b->ops.operands->values[b->value].is_detached = true;
    return b->value;
}

/* A matrix product whose weight all tensor ranks hold whole. Megatron Core averages its gradient
 * over them, which costs as much as a sum. */
static int add_projection(struct builder *b, const char *name, int rows, double in, double out)
{
    struct linear linear = { .name = name, .out = out, .in = in, .summed = SUMMED_OVER_HEADS };
    b->value = rows;
    add_linear(b, &linear);
    return b->value;
}

/* Rotates queries and keys and places both beside the heads' weights. */
static int add_index_heads(struct builder *b, const struct latent_rows *from)
{
    const struct model *model = b->model;
    double hidden = b->dims->hidden, dim = model->index_dim;
    double query_in = model->q_lora > 0 ? model->q_lora : hidden;
    double width = model->index_heads * dim + dim + model->index_heads;
    int rows = enter_detached(b, "index_enter", from->hidden, hidden);
    add_projection(b, "index_key", rows, hidden, dim);
    struct op *norm = add_norm_of(b, NORM_LAYER, "index_norm", b->dims->tokens, dim);
    for (int i = 0; i < norm->weights.count; i++)
        b->ops.operands->weights[norm->weights.at[i]].summed = SUMMED_OVER_HEADS;
    int keys = b->value;
    int weights = add_projection(b, "index_weights", rows, hidden, model->index_heads);
    int query_rows = enter_detached(b, "index_query_enter", from->queries, query_in);
    add_projection(b, "index_query", query_rows, query_in, model->index_heads * dim);
    struct op *op = add_op(b, OP_HEADS, "index_heads", b->dims->tokens, width);
    ids_add(&op->in, keys);
    ids_add(&op->in, weights);
    op->bytes = op->backward_bytes = 2 * b->element_bytes * op->m * op->n;
    op->kernels = op->backward_kernels = HEADS_KERNELS;
    return b->value;
}

/* Traffic of the indexer's queries and keys. */
static double head_bytes(const struct builder *b)
{
    return b->element_bytes * b->dims->tokens * (b->model->index_heads + 1) * b->model->index_dim;
}

/* Bytes of 4-byte places or values, one for each chosen key of each token. */
static double chosen_bytes(const struct builder *b)
{
    return CHOSEN_BYTES * b->dims->tokens * b->model->index_topk;
}

/* Scores are products in the type of the layer's linear products. They are written once and read
 * once by the choice, but only those of the chosen keys are stored at the end. */
static void add_index_scores(struct builder *b, double earlier)
{
    const struct layer_dims *d = b->dims;
    struct op *op = add_op(b, OP_SCORES, "index_scores", d->seq, d->kv_seq);
    op->batch = d->batch * b->model->index_heads;
    op->k = b->model->index_dim;
    op->flops = op->model_flops = op->batch * d->seq * earlier * op->k;
    op->bytes = head_bytes(b) + SCORE_BYTES * d->tokens * earlier / 2;
    if (b->options->recipe)
        op->dtype = b->options->recipe->products;
    b->ops.operands->values[b->value] = (struct op_value){ .bytes = chosen_bytes(b),
                                                           .form = VALUE_STATISTICS,
                                                           .is_detached = true };
}

static void add_choice(struct builder *b, double earlier)
{
    const struct layer_dims *d = b->dims;
    struct op *op = add_op(b, OP_CHOOSE, "index_choose", d->tokens, d->kv_seq);
    op->k = b->model->index_topk;
    op->bytes = SCORE_BYTES * d->tokens * earlier / 2 + chosen_bytes(b);
    b->ops.operands->values[b->value] =
        (struct op_value){ .bytes = chosen_bytes(b), .form = VALUE_PLACES, .is_detached = true };
}

struct indexer add_indexer(struct builder *b, const struct latent_rows *from)
{
    int current = b->value;
    double earlier = documents_attended(&b->model->documents, b->dims->kv_seq);
    struct indexer made = { .keys = keys_in_window(earlier, b->model->index_topk) };
    made.rows = add_index_heads(b, from);
    add_index_scores(b, earlier);
    add_choice(b, earlier);
    made.chosen = b->value;
    b->value = current;
    return made;
}

/* Attention's probabilities of the chosen keys, summed over heads. Each tensor rank sums its own
 * heads; the sums of all ranks are added. */
static int add_teacher(struct builder *b, const struct indexer *indexer, int heads)
{
    const struct layer_dims *d = b->dims;
    b->value = heads;
    struct op *op = add_op(b, OP_SCORES, "index_teacher", d->seq, indexer->keys / 2);
    ids_add(&op->in, indexer->chosen);
    op->batch = d->batch * d->heads;
    op->k = d->head_dim;
    op->flops = 2 * op->batch * op->m * op->n * op->k;
    op->bytes =
        b->element_bytes * d->tokens * (d->heads + d->kv_heads) * d->head_dim + 2 * chosen_bytes(b);
    b->ops.operands->values[b->value] = (struct op_value){ .bytes = chosen_bytes(b),
                                                           .form = VALUE_STATISTICS,
                                                           .is_detached = true };
    struct op *sum = add_reader(b, OP_ALL_REDUCE, "index_teacher_sum", d->tokens, op->n);
    sum->comm_bytes = chosen_bytes(b);
    return b->value;
}

/* Reads the scores of the chosen keys, which are computed again, and attention's probabilities. */
void add_index_loss(struct builder *b, const struct indexer *indexer, int heads)
{
    const struct layer_dims *d = b->dims;
    int current = b->value;
    int teacher = add_teacher(b, indexer, heads);
    b->value = indexer->rows;
    struct op *op = add_reader(b, OP_INDEX_LOSS, "index_loss", d->seq, indexer->keys / 2);
    ids_add(&op->in, indexer->chosen);
    ids_add(&op->in, teacher);
    op->batch = d->batch * b->model->index_heads;
    op->k = b->model->index_dim;
    op->flops = 2 * op->batch * op->m * op->n * op->k;
    op->bytes = head_bytes(b) + 2 * chosen_bytes(b);
    op->backward_bytes = 2 * op->bytes;
    keep_input(b, op);
    keep(b, op, indexer->chosen);
    keep(b, op, teacher);
    b->value = current;
}
