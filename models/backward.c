/* Derives the backward from a forward list by one rule per op kind, so that no second list must be
 * maintained. */
#include "models/layer_part.h"

#include <assert.h>

/* Maximum number of backward ops per forward op. A matrix product has at most eight: bias gradient,
 * quantised gradient, input gradient, the input gradient's collective, the activation before it and
 * its output quantised again, the gather of the saved input, weight gradient. Other ops have at
 * most two. */
enum { MOST_OF_PRODUCT = 8, MOST_OF_OTHER = 2 };

/* A backward list under construction. */
struct maker {
    const struct layer_options *options;
    const struct ops *forward;
    struct ops out;
    short gradient[MAX_VALUES]; /* per forward value: its gradient so far; NO_ID: none yet */
    bool is_learnt[MAX_VALUES]; /* per forward value: it depends on a trained weight or on an input
                                   that needs a gradient */
};

static bool is_fused_in(const struct layer_options *options, enum fusion fusion)
{
    return (options->fusions >> fusion & 1) != 0;
}

/* --- operands --------------------------------------------------------------------------------- */

static bool is_trained(const struct maker *m, int weight)
{
    return !m->forward->operands->weights[weight].is_frozen;
}

static bool is_made_of_learnt(const struct maker *m, const struct op *op)
{
    for (int i = 0; i < op->weights.count; i++)
        if (is_trained(m, op->weights.at[i]))
            return true;
    for (int i = 0; i < op->in.count; i++)
        if (m->is_learnt[op->in.at[i]])
            return true;
    return false;
}

/* Sets is_learnt. Inputs from the previous list need gradients, except token ids. */
static void find_learnt(struct maker *m)
{
    const struct operands *operands = m->forward->operands;
    for (int i = 0; i < operands->num_values; i++)
        m->is_learnt[i] = operands->values[i].form != VALUE_IDS;
    if (m->forward->is_input_constant)
        m->is_learnt[m->forward->input] = false;
    for (int i = 0; i < m->forward->count; i++) {
        const struct op *op = &m->forward->at[i];
        for (int j = 0; j < op->out.count; j++)
            m->is_learnt[op->out.at[j]] =
                !operands->values[op->out.at[j]].is_detached && is_made_of_learnt(m, op);
    }
}

static struct op *push(struct maker *m, const struct op *forward, enum op_pass pass)
{
    struct op *op = &m->out.at[m->out.count];
    *op = *forward;
    op->pass = pass;
    op->in = op->out = op->weights = op->saved = (struct ids){ 0 };
    for (int i = 0; i < MAX_SUMS; i++)
        op->sum[i] = NO_ID;
    op->backward_bytes = op->backward_kernels = 0;
    op->of = (int)(forward - m->forward->at);
    assert(op->of >= 0 && op->of < m->forward->count);
    op->after = m->out.count - 1;
    m->out.count++;
    return op;
}

static int make_like(struct maker *m, struct op *op, int value)
{
    struct op_value like = m->out.operands->values[value];
    like.is_live = false;
    like.stored_bytes = 0;
    int made = operands_add_value(m->out.operands, like);
    ids_add(&op->out, made);
    return made;
}

/* Makes the op's output the gradient of a forward value, added to the gradient from its other
 * readers. */
static void give_gradient(struct maker *m, struct op *op, int value)
{
    assert(op->out.count < MAX_SUMS);
    op->sum[op->out.count] = m->gradient[value];
    m->gradient[value] = (short)make_like(m, op, value);
}

/* Uses an existing gradient, unchanged, for `value` too. */
static void pass_gradient(struct maker *m, int gradient, int value)
{
    assert(m->gradient[value] == NO_ID && "no op that would add it");
    m->gradient[value] = (short)gradient;
}

/* Like pass_gradient, but if `value` already has a gradient from other readers, both are added. The
 * op that made `gradient` adds the other one or, if that op already adds some gradient, the op that
 * made that gradient. */
static void pass_or_add_gradient(struct maker *m, int gradient, int value)
{
    short had = m->gradient[value];
    m->gradient[value] = (short)gradient;
    while (had != NO_ID) {
        int i = ops_maker(&m->out, gradient);
        assert(i >= 0 && "no op that would add it");
        struct op *op = &m->out.at[i];
        int at = 0;
        while (op->out.at[at] != gradient)
            at++;
        gradient = op->sum[at];
        if (gradient == NO_ID) {
            op->sum[at] = had;
            return;
        }
    }
}

/* The gradient of an op's output; NO_ID: not needed. */
static int gradient_of(const struct maker *m, const struct op *forward)
{
    int gradient = NO_ID;
    for (int i = 0; i < forward->out.count; i++)
        if (m->gradient[forward->out.at[i]] != NO_ID)
            gradient = m->gradient[forward->out.at[i]];
    return gradient;
}

/* --- ops -------------------------------------------------------------------------------------- */

/* Number of times that operands without rows (weights) are read or written: once per row block, or
 * once if there are none. */
static double num_row_blocks(const struct op *op)
{
    return op->row_blocks > 1 ? op->row_blocks : 1;
}

/* Bytes of an element of a product's input. */
static double input_bytes(const struct op *op, const struct layer_options *options)
{
    return dtype_is_quantized(op->dtype) ? quantized_bytes(options->recipe)
                                         : layer_element_bytes(options);
}

/* Adds the backward of a mark (a placeholder for a collective): a gather becomes a sum and vice
 * versa. With a recipe (quantised linear layers), gathered values are sent quantised; sums are sent
 * in 16 bits. */
static struct op *push_mark(struct maker *m, const struct op *mark, enum op_kind kind,
                            enum op_pass pass)
{
    struct op *op = push(m, mark, pass);
    double gathered_bytes = input_bytes(mark, m->options);
    op->kind = kind;
    if (mark->turned_comm_bytes > 0)
        op->comm_bytes = mark->turned_comm_bytes;
    if (dtype_is_quantized(mark->dtype))
        op->comm_bytes =
            mark->m * mark->n *
            (kind == OP_TENSOR_ENTER ? gathered_bytes : layer_element_bytes(m->options));
    return op;
}

static void push_turned_mark(struct maker *m, const struct op *mark, enum op_kind kind,
                             int gradient)
{
    struct op *op = push_mark(m, mark, kind, PASS_BACKWARD_INPUT);
    ids_add(&op->in, gradient);
    give_gradient(m, op, mark->in.at[0]);
}

/* Quantises the gradient of a product's output, from which the input gradient and the weight
 * gradient are computed. Returns the quantised value. */
static int push_quantize(struct maker *m, const struct op *forward, int gradient)
{
    struct op *op = push(m, forward, PASS_BACKWARD_INPUT);
    op->kind = OP_QUANTIZE;
    op->flops = op->model_flops = op->comm_bytes = 0;
    op->k = 1;
    op->bytes = forward->backward_bytes;
    op->kernels = forward->backward_kernels;
    ids_add(&op->in, gradient);
    return make_like(m, op, gradient);
}

/* The input gradient dY (m x n) . W^T, a product of m x k from n. */
static void push_input_gradient(struct maker *m, const struct op *gemm, int gradient)
{
    struct op *op = push(m, gemm, PASS_BACKWARD_INPUT);
    op->n = gemm->k;
    op->k = gemm->n;
    op->bytes = op->batch * (input_bytes(gemm, m->options) *
                                 (op->m * op->k + num_row_blocks(gemm) * op->k * op->n) +
                             layer_element_bytes(m->options) * op->m * op->n);
    ids_add(&op->in, gradient);
    ids_add(&op->weights, gemm->weights.at[0]);
    give_gradient(m, op, gemm->in.at[0]);
}

/* The id of a product's bias, if it has a trained one; else NO_ID. */
static int bias_of(const struct maker *m, const struct op *gemm)
{
    return gemm->weights.count > 1 && is_trained(m, gemm->weights.at[1]) ? gemm->weights.at[1]
                                                                         : NO_ID;
}

/* Whether the weight gradient's op also sums the bias gradient; it does not if it reads a quantised
 * gradient. */
static bool sums_bias(const struct maker *m, const struct op *gemm)
{
    return bias_of(m, gemm) != NO_ID && is_trained(m, gemm->weights.at[0]) &&
           !dtype_is_quantized(gemm->dtype) && is_fused_in(m->options, FUSION_WGRAD_BIAS);
}

/* The weight gradient X^T . dY, a product of n x k from m, and its addition to the main gradient.
 * Either the product adds, and then reads and writes the accumulator, or a second kernel adds,
 * which also reads the product's output. If the op also sums the bias gradient (sums_bias), it has
 * a further small kernel for that. */
static void push_weight_gradient(struct maker *m, const struct op *gemm, int gradient, int input)
{
    const struct layer_options *options = m->options;
    bool accumulates = is_fused_in(options, FUSION_WGRAD_ACCUMULATE);
    bool with_bias = sums_bias(m, gemm);
    struct op *op = push(m, gemm, PASS_BACKWARD_WEIGHT);
    op->m = gemm->n;
    op->n = gemm->k;
    op->k = gemm->m;
    double written_bytes =
        2 * options->gradient_bytes + (accumulates ? 0 : 2 * layer_element_bytes(options));
    op->bytes = op->batch * (input_bytes(gemm, options) * op->k * (op->m + op->n) +
                             num_row_blocks(gemm) * written_bytes * op->m * op->n);
    op->sum_bytes =
        accumulates ? op->batch * num_row_blocks(gemm) * 2 * options->gradient_bytes * op->m * op->n
                    : 0;
    op->kernels *= accumulates ? 1 : 2;
    op->variant = with_bias ? "bias_grad" : "";
    ids_add(&op->in, gradient);
    ids_add(&op->in, input);
    ids_add(&op->weights, gemm->weights.at[0]);
    if (!with_bias)
        return;
    ids_add(&op->weights, gemm->weights.at[1]);
    op->bytes += op->batch * 4 * options->gradient_bytes * op->m;
    op->kernels++;
}

static void push_bias_gradient(struct maker *m, const struct op *gemm, int gradient)
{
    struct op *op = push(m, gemm, PASS_BACKWARD_WEIGHT);
    op->kind = OP_BIAS_GRAD;
    op->variant = "";
    op->flops = op->model_flops = op->k = 0;
    op->bytes = op->batch * layer_element_bytes(m->options) * gemm->m * gemm->n;
    ids_add(&op->in, gradient);
    ids_add(&op->weights, gemm->weights.at[1]);
}

/* The mark through which a value entered the tensor-parallel region; NULL: it was made inside the
 * region. */
static const struct op *enter_of(const struct maker *m, int value)
{
    int maker = ops_maker(m->forward, value);
    bool entered = maker >= 0 && m->forward->at[maker].kind == OP_TENSOR_ENTER;
    return entered ? &m->forward->at[maker] : NULL;
}

/* Under sequence parallelism the saved input is a shard, which is gathered again for the weight
 * gradient, unless it was kept as gathered. Returns the gathered value. */
static int push_gather(struct maker *m, const struct op *enter, int shard)
{
    if (region_keeps_gathered(m->options, enter->region))
        return enter->out.at[0];
    struct op *op = push_mark(m, enter, OP_TENSOR_ENTER, PASS_BACKWARD_WEIGHT);
    ids_add(&op->in, shard);
    return make_like(m, op, enter->out.at[0]);
}

/* Recomputes an activation's output from its input, in the type in which the input was kept.
 * Returns the output. */
static int push_activation_again(struct maker *m, const struct op *activation)
{
    struct op *op = push(m, activation, PASS_BACKWARD_WEIGHT);
    const struct op_value *values = m->out.operands->values;
    op->bytes =
        value_kept_bytes(&values[activation->in.at[0]]) + values[activation->out.at[0]].bytes;
    ids_add(&op->in, activation->in.at[0]);
    return make_like(m, op, activation->out.at[0]);
}

/* The copy of a product's input for the weight gradient, on this rank: the copy that was kept, or
 * one that is made of the kept 16-bit input, or of the recomputed output of the activation. */
static int push_copy(struct maker *m, const struct op *gemm, int copy)
{
    int at = ops_quantizer(m->forward, gemm->in.at[0]);
    const struct op *quantize = at < 0 ? NULL : &m->forward->at[at];
    bool is_apart = m->options->stores.transposes_apart;
    bool is_kept = gemm->saved.count > 0 && quantize && !ids_have(&gemm->saved, quantize->in.at[0]);
    if (!quantize || (is_kept && !is_apart))
        return copy;
    const struct recipe *recipe = m->options->recipe;
    int source = is_kept ? copy : quantize->in.at[0];
    double read_bytes = value_kept_bytes(&m->out.operands->values[source]);
    if (gemm->saved.count == 0) {
        source = push_activation_again(m, &m->forward->at[ops_maker(m->forward, source)]);
        read_bytes = m->out.operands->values[source].bytes;
    }
    struct op *op = push(m, quantize, PASS_BACKWARD_WEIGHT);
    op->bytes = is_apart ? transpose_traffic_bytes(recipe, read_bytes, op->m * op->n)
                         : recipe->reads * read_bytes + quantized_bytes(recipe) * op->m * op->n;
    op->kernels = recipe->kernels;
    ids_add(&op->in, source);
    return make_like(m, op, quantize->out.at[0]);
}

/* Whether the op is the value's first reader, which the backward reaches last, after the gradients
 * of all other readers. */
static bool is_first_reader(const struct maker *m, const struct op *op, int value)
{
    return &m->forward->at[ops_next_reader(m->forward, value, -1)] == op;
}

static void push_leave(struct maker *m, const struct op *enter)
{
    push_turned_mark(m, enter, OP_TENSOR_LEAVE, m->gradient[enter->out.at[0]]);
}

/* Puts the mark between the input gradient and the weight gradient, so that its collective can
 * overlap with the weight gradient. */
static void push_gemm(struct maker *m, const struct op *gemm)
{
    int gradient = gradient_of(m, gemm), input = gemm->in.at[0], kept = NO_ID;
    bool learns = is_trained(m, gemm->weights.at[0]);
    const struct op *enter = enter_of(m, input);
    if (bias_of(m, gemm) != NO_ID && !sums_bias(m, gemm))
        push_bias_gradient(m, gemm, gradient);
    if (gemm->backward_bytes > 0)
        gradient = push_quantize(m, gemm, gradient);
    if (enter && learns)
        kept = push_gather(m, enter, push_copy(m, gemm, enter->in.at[0]));
    if (m->is_learnt[input])
        push_input_gradient(m, gemm, gradient);
    if (enter && m->is_learnt[input] && is_first_reader(m, gemm, input))
        push_leave(m, enter);
    if (learns)
        push_weight_gradient(m, gemm, gradient, enter ? kept : push_copy(m, gemm, input));
}

/* Makes the op read the gradient of the forward op's output, and the values that the forward op
 * kept. */
static void read_kept(struct op *op, const struct op *forward, int gradient)
{
    if (gradient != NO_ID)
        ids_add(&op->in, gradient);
    for (int i = 0; i < forward->saved.count; i++)
        ids_add(&op->in, forward->saved.at[i]);
    op->weights = forward->weights;
}

static struct op *push_traffic(struct maker *m, const struct op *forward, enum op_pass pass)
{
    struct op *op = push(m, forward, pass);
    op->bytes = forward->backward_bytes;
    op->kernels = forward->backward_kernels;
    read_kept(op, forward, gradient_of(m, forward));
    if (pass == PASS_BACKWARD_INPUT)
        give_gradient(m, op, forward->in.at[0]);
    return op;
}

/* A norm whose kernel adds the residual stream's gradient also reads that gradient. */
static void push_norm(struct maker *m, const struct op *norm)
{
    struct op *op = push_traffic(m, norm, PASS_BACKWARD_INPUT);
    if (op->sum[0] == NO_ID || !is_fused_in(m->options, FUSION_RESIDUAL_NORM))
        return;
    op->adds_sum = true;
    op->variant = "adds_stream";
    op->bytes += layer_element_bytes(m->options) * op->m * op->n;
}

/* The gradient of the residual stream is passed on unchanged. If attention and feed-forward are
 * parallel, so is the gradient of the first of them, unless it has dropout. */
static void push_residual(struct maker *m, const struct op *residual)
{
    struct op *op = push_traffic(m, residual, PASS_BACKWARD_INPUT);
    op->weights.count = 0; /* the product that the bias belongs to also sums the bias gradient */
    if (residual->in.count > 1)
        pass_gradient(m, op->in.at[0], residual->in.at[1]);
    if (residual->in.count > 2 && residual->variant[0] == '\0')
        pass_gradient(m, op->in.at[0], residual->in.at[2]);
    else if (residual->in.count > 2)
        give_gradient(m, op, residual->in.at[2]);
}

static const struct op *loss_of(const struct maker *m, const struct op *logits)
{
    int i = ops_next_reader(m->forward, logits->out.at[0], -1);
    while (m->forward->at[i].kind != OP_CROSS_ENTROPY)
        i = ops_next_reader(m->forward, logits->out.at[0], i);
    return &m->forward->at[i];
}

/* The backward of a head with row blocks, which kept no logits: for each row block it recomputes
 * the logits (not counted as model FLOPs), then makes the gradients of the logits, of the input and
 * of the weight. */
static void push_row_blocks(struct maker *m, const struct op *logits)
{
    int input = logits->in.at[0];
    const struct op *enter = enter_of(m, input);
    int kept = enter ? push_gather(m, enter, enter->in.at[0]) : input;
    struct op *again = push(m, logits, PASS_FORWARD);
    again->model_flops = 0;
    again->weights = logits->weights;
    ids_add(&again->in, kept);
    int made = make_like(m, again, logits->out.at[0]);
    struct op *loss = push_traffic(m, loss_of(m, logits), PASS_BACKWARD_INPUT);
    ids_add(&loss->in, made);
    if (m->is_learnt[input])
        push_input_gradient(m, logits, gradient_of(m, logits));
    if (is_trained(m, logits->weights.at[0]))
        push_weight_gradient(m, logits, gradient_of(m, logits), kept);
    if (enter && m->is_learnt[input])
        push_leave(m, enter);
}

/* Sets the sizes of a gradient of attention's forward product of m x n from k. The first operand's
 * gradient is m x k from n. The second operand has one row of the head's width per key: its
 * gradient is n x k from m for scores, whose columns are keys, and k x n from m for the context. */
static void turn_product(struct op *op, bool is_second)
{
    double m = op->m, n = op->n, k = op->k;
    bool is_scores = op->kind == OP_SCORES;
    op->m = !is_second ? m : is_scores ? n : k;
    op->n = !is_second || is_scores ? k : n;
    op->k = is_second ? m : n;
}

/* Each forward product has two backward products with as many FLOPs: the gradients of its first and
 * of its last operand. The gradients of queries, keys and values are parts of one value. */
static void push_attention_product(struct maker *m, const struct op *product)
{
    int gradient = gradient_of(m, product);
    for (int i = 0; i < 2; i++) {
        struct op *op = push(m, product, PASS_BACKWARD_INPUT);
        turn_product(op, i == 1);
        read_kept(op, product, gradient);
        give_gradient(m, op, product->in.at[i * (product->in.count - 1)]);
        op->adds_sum = op->sum[0] != NO_ID;
    }
}

/* Five products, where the forward has two. If keys and values come from another sequence, queries
 * and key-values have separate gradients. */
static void push_flash(struct maker *m, const struct op *attention)
{
    struct op *op = push_traffic(m, attention, PASS_BACKWARD_INPUT);
    for (int i = 1; i < attention->in.count; i++)
        if (m->is_learnt[attention->in.at[i]])
            give_gradient(m, op, attention->in.at[i]);
    op->flops = 2.5 * attention->flops;
    op->model_flops = 2 * attention->model_flops;
}

/* Makes the gradients of the experts' output rows and, if the combine multiplied by their shares
 * (the router's weights), of the shares. */
static void push_combine(struct maker *m, const struct op *combine)
{
    struct op *op = push_traffic(m, combine, PASS_BACKWARD_INPUT);
    if (combine->in.count > 2)
        give_gradient(m, op, combine->in.at[1]);
}

/* If rows were sent with their shares, the gradients of both come back. */
static void push_dispatch(struct maker *m, const struct op *dispatch)
{
    struct op *op = push_traffic(m, dispatch, PASS_BACKWARD_INPUT);
    if (dispatch->in.count > 2)
        give_gradient(m, op, dispatch->in.at[2]);
}

/* Makes the gradients of all inputs of an op that concatenates values: queries, keys, values and
 * the shared key; or two values side by side. */
static void push_parts(struct maker *m, const struct op *whole)
{
    struct op *op = push_traffic(m, whole, PASS_BACKWARD_INPUT);
    for (int i = 1; i < whole->in.count; i++)
        give_gradient(m, op, whole->in.at[i]);
}

/* A scan makes the gradients of the inputs and of the rates, and computes the states of chunks
 * again. The indexer's loss has no reader, so no gradient arrives; it computes the scores of the
 * chosen keys again, and two products make the gradients of queries and keys. */
static void push_scan(struct maker *m, const struct op *scan)
{
    struct op *op = push_traffic(m, scan, PASS_BACKWARD_INPUT);
    if (scan->in.count > 1 && m->is_learnt[scan->in.at[1]])
        give_gradient(m, op, scan->in.at[1]);
    op->flops = (scan->kind == OP_SCAN ? 2.5 : 3) * scan->flops;
    op->model_flops = 2 * scan->model_flops;
}

static void push_activation(struct maker *m, const struct op *activation)
{
    struct op *op = push_traffic(m, activation, PASS_BACKWARD_INPUT);
    if (activation->in.count > 1)
        give_gradient(m, op, activation->in.at[1]); /* gradient of the gate */
}

/* Whether the mark's backward was already added with the gradients of the products after it. */
static bool is_left_by_product(const struct maker *m, const struct op *enter)
{
    int first = ops_next_reader(m->forward, enter->out.at[0], -1);
    return first < m->forward->count && m->forward->at[first].kind == OP_GEMM;
}

/* Where rows left the tensor-parallel region in the forward, their gradient enters it in the
 * backward. */
static void push_enter(struct maker *m, const struct op *op)
{
    int gradient = gradient_of(m, op);
    if (op->backward_bytes > 0)
        gradient = push_quantize(m, op, gradient);
    push_turned_mark(m, op, OP_TENSOR_ENTER, gradient);
}

/* The mark in the backward that corresponds to a mark of the forward. */
static enum op_kind turned(enum op_kind mark)
{
    switch (mark) {
    case OP_EXPERT_ENTER:
        return OP_EXPERT_LEAVE;
    case OP_EXPERT_LEAVE:
        return OP_EXPERT_ENTER;
    case OP_CP_ENTER:
        return OP_CP_LEAVE;
    case OP_CP_LEAVE:
        return OP_CP_ENTER;
    default:
        assert(mark == OP_TENSOR_JOIN); /* each rank then takes its columns */
        return OP_TENSOR_ENTER;
    }
}

static void push_backward(struct maker *m, const struct op *op)
{
    switch (op->kind) {
    case OP_GEMM:
        if (op->row_blocks > 1)
            push_row_blocks(m, op);
        else
            push_gemm(m, op);
        return;
    case OP_SCORES:
    case OP_ATTENTION_VALUES:
        push_attention_product(m, op);
        return;
    case OP_FLASH_ATTENTION:
        push_flash(m, op);
        return;
    case OP_SCAN:
    case OP_INDEX_LOSS:
        push_scan(m, op);
        return;
    case OP_EMBEDDING:
        push_traffic(m, op, PASS_BACKWARD_WEIGHT);
        return;
    case OP_RESIDUAL:
        push_residual(m, op);
        return;
    case OP_NORM:
        push_norm(m, op);
        return;
    case OP_COMBINE:
        push_combine(m, op);
        return;
    case OP_DISPATCH:
        push_dispatch(m, op);
        return;
    case OP_HEADS:
    case OP_JOIN:
        push_parts(m, op);
        return;
    case OP_ACTIVATION:
        push_activation(m, op);
        return;
    case OP_SOFTMAX:
    case OP_ROTARY:
    case OP_ROUTE:
    case OP_SORT:
        push_traffic(m, op, PASS_BACKWARD_INPUT);
        return;
    case OP_CROSS_ENTROPY: /* with row blocks push_row_blocks makes its backward */
        if (op->row_blocks <= 1)
            push_traffic(m, op, PASS_BACKWARD_INPUT);
        return;
    case OP_TENSOR_LEAVE:
        push_enter(m, op);
        return;
    case OP_TENSOR_ENTER:
        if (!is_left_by_product(m, op))
            push_leave(m, op);
        return;
    case OP_QUANTIZE:
        pass_or_add_gradient(m, gradient_of(m, op), op->in.at[0]);
        return;
    case OP_TENSOR_JOIN:
    case OP_EXPERT_ENTER:
    case OP_EXPERT_LEAVE:
    case OP_CP_ENTER:
    case OP_CP_LEAVE:
        push_turned_mark(m, op, turned(op->kind), gradient_of(m, op));
        return;
    case OP_ALL_REDUCE: /* the loss: its gradient needs no exchange */
    case OP_CHOOSE:     /* chosen keys have no gradient */
        return;
    case OP_BIAS_GRAD:
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
    case OP_ALL_TO_ALL:
    case OP_SEND_RECEIVE:
        break;
    }
    assert(0 && "not a forward op");
}

/* Whether the op needs a backward, for its inputs or its weights. */
static bool is_asked(const struct maker *m, const struct op *op)
{
    bool learns = false;
    for (int i = 0; i < op->out.count; i++)
        learns |= m->is_learnt[op->out.at[i]];
    if (op->kind == OP_INDEX_LOSS)
        return m->is_learnt[op->in.at[0]];
    return op->kind == OP_CROSS_ENTROPY || op->row_blocks > 1 ||
           (learns && gradient_of(m, op) != NO_ID);
}

/* The backward receives a gradient for each output of the list. */
static void begin(struct maker *m)
{
    struct ops *out = &m->out;
    for (int i = 0; i < MAX_VALUES; i++)
        m->gradient[i] = NO_ID;
    out->input = out->output = NO_ID;
    if (m->forward->output == NO_ID)
        return;
    struct op_value like = out->operands->values[m->forward->output];
    out->input = (short)operands_add_value(out->operands, like);
    m->gradient[m->forward->output] = out->input;
}

static size_t most_ops(const struct ops *forward)
{
    size_t most = 0;
    for (int i = 0; i < forward->count; i++)
        most += forward->at[i].kind == OP_GEMM ? MOST_OF_PRODUCT : MOST_OF_OTHER;
    return most;
}

struct ops ops_backward(struct ops forward, const struct layer_options *options,
                        struct arena *arena)
{
    struct maker m = { .options = options, .forward = &forward };
    m.out.at = ARENA_ROOM(arena, struct op, most_ops(&forward));
    m.out.operands = forward.operands;
    find_learnt(&m);
    begin(&m);
    for (int i = forward.count - 1; i >= 0; i--)
        if (is_asked(&m, &forward.at[i]))
            push_backward(&m, &forward.at[i]);
    if (forward.input != NO_ID && !forward.is_input_constant)
        m.out.output = m.gradient[forward.input];
    for (int i = 0; i < forward.aside.count; i++)
        ids_add(&m.out.aside, m.gradient[forward.aside.at[i]]);
    return m.out;
}

static bool has_backward(const struct ops *backward, int op)
{
    for (int i = 0; i < backward->count; i++)
        if (backward->at[i].of == op)
            return true;
    return false;
}

void ops_drop_unread(struct ops *forward, const struct ops *backward)
{
    for (int i = 0; i < forward->count; i++) {
        struct op *op = &forward->at[i];
        struct ids kept = { 0 };
        for (int j = 0; j < op->saved.count; j++)
            if (ops_next_reader(backward, op->saved.at[j], -1) < backward->count)
                ids_add(&kept, op->saved.at[j]);
        op->saved = kept;
        if (!has_backward(backward, i))
            op->kept_bytes = 0;
    }
}
