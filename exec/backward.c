#include "exec/head.h"

#include <string.h>

static const struct op *source_op(const struct flow *flow, int i)
{
    return &flow->part->ops->forward.at[flow->part->source[i]];
}

/* --- products ----------------------------------------------------------------------------- */

/* The gradient of a product's output: what flows, until its input gradient has kept it. */
static void **kept_gradient(const struct flow *flow, int i)
{
    return &flow->record->output_gradients[flow->part->source[i]];
}

static const void *output_gradient(const struct flow *flow, int i)
{
    const void *kept = *kept_gradient(flow, i);
    return kept ? kept : flow->x.at;
}

static void run_bias_gradient(struct flow *flow, const struct op *op, int i)
{
    ISSUE(flow, linear_bias_gradient, linear_bias_gradient, .rows = (long)op->m,
          .width = (long)op->n, .dy = output_gradient(flow, i),
          .dbias = part_gradient(flow->part, op->name, WEIGHT_BIAS));
}

/* What the activation before a product was of, where the product before it has made it. */
static const void *before_gelu(const struct flow *flow, int i)
{
    int source = flow->part->source[i];
    return ops_folds_before(&flow->part->ops->forward, source) ? flow_folded_slot(flow, source - 1)
                                                               : NULL;
}

/* An op of the backward has m rows, n inputs and k outputs of the layer. */
static void run_input_gradient(struct flow *flow, const struct op *op, int i)
{
    struct value dx = flow_new(flow, op->m * op->n);
    ISSUE(flow, linear_input_gradient, linear_input_gradient, .rows = (long)op->m,
          .out = (long)op->k, .in = (long)op->n, .dy = flow->x.at,
          .weight = part_value(flow->part, op->name, WEIGHT_MATRIX), .dx = dx.at,
          .before_gelu = before_gelu(flow, i));
    *kept_gradient(flow, i) = flow->x.at;
    flow->x = dx;
}

/* ... and here m outputs, n inputs and k rows. */
static void run_weight_gradient(struct flow *flow, const struct op *op, int i)
{
    void **kept = kept_gradient(flow, i);
    void *input =
        flow->gathered.at ? flow->gathered.at : flow_own_slot(flow, flow->part->source[i]);
    ISSUE(flow, linear_weight_gradient, linear_weight_gradient, .rows = (long)op->k,
          .out = (long)op->m, .in = (long)op->n, .dy = *kept, .x = input,
          .dweight = part_gradient(flow->part, op->name, WEIGHT_MATRIX),
          .dbias = op->has_bias ? part_gradient(flow->part, op->name, WEIGHT_BIAS) : NULL);
    struct value dy = { *kept, true };
    flow_free(flow, &dy);
    *kept = NULL;
    flow_free(flow, &flow->gathered);
}

static void run_gemm(struct flow *flow, const struct op *op, int i)
{
    if (op->pass == PASS_BACKWARD_INPUT)
        run_input_gradient(flow, op, i);
    else
        run_weight_gradient(flow, op, i);
}

/* --- norms, activation, residual ---------------------------------------------------------- */

static void run_head_norm(struct flow *flow, const struct op *op, int i)
{
    void *inputs = flow_own_slot(flow, flow->part->source[i]);
    ISSUE(flow, head_norm_backward, head_norm_backward, .attention = flow_attention(flow),
          .scale = part_value(flow->part, op->name, WEIGHT_SCALE), .inputs = inputs,
          .statistics = flow_statistics(flow, inputs, op->m * op->n), .dqkv = flow->x.at,
          .dscale = part_gradient(flow->part, op->name, WEIGHT_SCALE));
}

/* The branch's gradient joins that of the stream. */
static void join(struct flow *flow, const struct op *op)
{
    if (flow->part->kind == PART_EMBEDDING)
        return;
    if (flow->h.at) {
        ISSUE(flow, sum_into, sum_into, .n = (long)(op->m * op->n), .x = flow->x.at,
              .sum = flow->h.at);
        flow_free(flow, &flow->x);
    } else {
        flow->h = flow->x;
        flow->x = (struct value){ 0 };
    }
}

/* Its input and statistics: in the slot of its own op, or of the residual that it is folded into.
 */
static void *kept_by_norm(const struct flow *flow, int i)
{
    int source = flow->part->source[i];
    return source_op(flow, i)->folded ? flow_folded_slot(flow, source)
                                      : flow_own_slot(flow, source);
}

static void run_norm(struct flow *flow, const struct op *op, int i)
{
    if (flow_is_head_norm(op)) {
        run_head_norm(flow, op, i);
        return;
    }
    const struct part *part = flow->part;
    void *input = kept_by_norm(flow, i);
    bool adds = op->adds_stream && flow->h.at;
    ISSUE(
        flow, norm_backward, norm_backward, .norm = flow_norm(flow, op),
        .kind = flow->machine->model->norm, .dy = flow->x.at, .x = input,
        .scale = part_value(part, op->name, WEIGHT_SCALE),
        .statistics = flow_statistics(flow, input, op->m * op->n),
        .dx = adds ? flow->h.at : flow->x.at, .dscale = part_gradient(part, op->name, WEIGHT_SCALE),
        .dshift = part_gradient(part, op->name, WEIGHT_SHIFT), .stream = adds ? flow->h.at : NULL);
    if (adds)
        flow_free(flow, &flow->x);
    else
        join(flow, op);
}

static void run_activation(struct flow *flow, const struct op *op, int i)
{
    struct activation_shape shape = flow_activation(flow, op);
    double elements = (double)shape.rows * (double)activation_inputs(&shape);
    struct value dx = flow_new(flow, elements);
    ISSUE(flow, activation_gradient, activation_gradient, .shape = shape, .dy = flow->x.at,
          .x = flow_own_slot(flow, flow->part->source[i]), .dx = dx.at);
    flow_replace(flow, &flow->x, dx);
}

static void run_residual(struct flow *flow, const struct op *op, int i)
{
    int source = flow->part->source[i];
    bool drops = flow->machine->model->dropout > 0;
    bool in_place = flow->part->kind == PART_EMBEDDING;
    struct value dx = in_place ? flow->x : flow_new(flow, op->m * op->n);
    ISSUE(flow, residual_gradient, residual_gradient,
          .residual = flow_residual(flow, source_op(flow, i), source),
          .dy = in_place ? dx.at : flow->h.at, .keeps = drops ? flow_own_slot(flow, source) : NULL,
          .dx = dx.at);
    flow->x = dx;
}

/* --- attention ---------------------------------------------------------------------------- */

static void run_rotary(struct flow *flow, const struct op *op, int i)
{
    (void)op, (void)i;
    ISSUE(flow, rotary_backward, rotary, .attention = flow_attention(flow),
          .turns = flow->machine->turns, .qkv = flow->x.at);
}

/* The product behind the core keeps its input, which is the core's output. */
static const void *kept_context(const struct flow *flow, int forward)
{
    const struct ops *list = &flow->part->ops->forward;
    int next = forward + 1;
    while (list->at[next].kind != OP_GEMM)
        next++;
    return flow_own_slot(flow, next);
}

static void run_flash(struct flow *flow, const struct op *op, int i)
{
    (void)op;
    struct machine *m = flow->machine;
    int source = flow->part->source[i];
    struct attention attention = flow_attention(flow);
    struct value dqkv = flow_new(flow, flow_qkv_elements(&attention));
    void *scratch = machine_take(m, m->kernel_api->flash_scratch_bytes(m->kernels, &attention));
    ISSUE(flow, flash_backward, flash_backward, .attention = attention, .dcontext = flow->x.at,
          .qkv = flow_input_slot(flow, source), .context = kept_context(flow, source),
          .log_sums = flow_own_slot(flow, source), .dqkv = dqkv.at, .scratch = scratch);
    machine_give_back(m, scratch);
    flow_replace(flow, &flow->x, dqkv);
}

static const void *packed_qkv(const struct flow *flow)
{
    const struct ops *list = &flow->part->ops->forward;
    int i = 0;
    while (list->at[i].kind != OP_SCORES)
        i++;
    return flow_input_slot(flow, i);
}

/* Two products: first that of the probabilities, then that of the values. */
static void run_context(struct flow *flow, const struct op *op, int i)
{
    (void)op;
    struct attention attention = flow_attention(flow);
    int source = flow->part->source[i];
    const void *dropped =
        flow_own_slot(flow, flow->machine->model->dropout > 0 ? source : source - 1);
    if (!flow->scores.at) {
        flow->scores = flow_new(flow, (double)attention_score_count(&attention));
        ISSUE(flow, context_probability_gradient, context_backward, .attention = attention,
              .dcontext = flow->x.at, .qkv = packed_qkv(flow), .ddropped = flow->scores.at);
        return;
    }
    struct value dqkv = flow_new(flow, flow_qkv_elements(&attention));
    ISSUE(flow, context_value_gradient, context_backward, .attention = attention,
          .dcontext = flow->x.at, .dropped = dropped, .dqkv = dqkv.at);
    flow_replace(flow, &flow->x, dqkv);
}

static void run_softmax(struct flow *flow, const struct op *op, int i)
{
    bool drops = flow->machine->model->dropout > 0;
    const char *probabilities = flow_own_slot(flow, flow->part->source[i]);
    size_t bytes = machine_bytes(flow->machine, op->batch * op->m * op->n);
    ISSUE(flow, softmax_backward, softmax_backward, .attention = flow_attention(flow),
          .ddropped = flow->scores.at, .probabilities = probabilities,
          .keeps = drops ? (const uint8_t *)probabilities + bytes : NULL,
          .dscores = flow->scores.at);
}

static void run_scores(struct flow *flow, const struct op *op, int i)
{
    struct attention attention = flow_attention(flow);
    bool is_first = i == 0 || flow->part->ops->backward.at[i - 1].kind != op->kind;
    struct scores_backward args = { attention, flow->scores.at, packed_qkv(flow), flow->x.at };
    struct machine *m = flow->machine;
    if (is_first) {
        m->kernel_api->scores_query_gradient(m->kernels, m->compute, &args);
        return;
    }
    m->kernel_api->scores_key_gradient(m->kernels, m->compute, &args);
    flow_free(flow, &flow->scores);
}

/* --- tokens ------------------------------------------------------------------------------- */

static void run_embedding(struct flow *flow, const struct op *op, int i)
{
    struct machine *m = flow->machine;
    void **kept = kept_gradient(flow, i);
    ISSUE(flow, embedding_gradient, embedding_gradient,
          .embedding = flow_embedding(flow, source_op(flow, i)), .seq = (long)m->dims.seq,
          .ids = flow_own_slot(flow, flow->part->source[i]), .dy = output_gradient(flow, i),
          .dtable = part_gradient(flow->part, op->name, WEIGHT_TABLE),
          .dpositions = part_gradient(flow->part, op->name, WEIGHT_POSITIONS));
    struct value dy = { *kept, true };
    flow_free(flow, &dy);
    *kept = NULL;
    flow_free(flow, &flow->x);
}

/* In the memory of the logits. */
static void run_cross_entropy(struct flow *flow, const struct op *op, int i)
{
    struct record *record = flow->record;
    flow->rows = (struct rows){ 0, (long)op->m };
    head_find_gradient(flow, source_op(flow, i), record->logits);
    flow->x = (struct value){ record->logits, true };
    record->logits = NULL;
    head_give_back_statistics(flow);
}

/* --- collectives -------------------------------------------------------------------------- */

static void run_all_reduce(struct flow *flow, const struct op *op, int i)
{
    (void)i;
    flow_collective(flow, op, COMM_ALL_REDUCE, flow->x.at, flow->x.at, op->m * op->n);
}

/* Of a product's input, which is kept as a rank's rows; else of what flows. */
static void run_all_gather(struct flow *flow, const struct op *op, int i)
{
    double part = op->m * op->n / flow->machine->plan->tp;
    struct value whole = flow_new(flow, op->m * op->n);
    if (op->pass == PASS_BACKWARD_WEIGHT) {
        const void *own = flow_own_slot(flow, flow->part->source[i] + 1);
        flow_collective(flow, op, COMM_ALL_GATHER, own, whole.at, part);
        flow->gathered = whole;
        return;
    }
    flow_collective(flow, op, COMM_ALL_GATHER, flow->x.at, whole.at, part);
    flow_free_late(flow, &flow->x);
    flow->x = whole;
}

static void run_reduce_scatter(struct flow *flow, const struct op *op, int i)
{
    (void)i;
    double part = op->m * op->n / flow->machine->plan->tp;
    struct value own = flow_new(flow, part);
    flow_collective(flow, op, COMM_REDUCE_SCATTER, flow->x.at, own.at, part);
    flow_free_late(flow, &flow->x);
    flow->x = own;
}

static flow_op *const handlers[NUM_OP_KINDS] = {
    [OP_GEMM] = run_gemm,
    [OP_SCORES] = run_scores,
    [OP_SOFTMAX] = run_softmax,
    [OP_CONTEXT] = run_context,
    [OP_FLASH_ATTENTION] = run_flash,
    [OP_NORM] = run_norm,
    [OP_ACTIVATION] = run_activation,
    [OP_ROTARY] = run_rotary,
    [OP_RESIDUAL] = run_residual,
    [OP_EMBEDDING] = run_embedding,
    [OP_CROSS_ENTROPY] = run_cross_entropy,
    [OP_BIAS_GRAD] = run_bias_gradient,
    [OP_ALL_REDUCE] = run_all_reduce,
    [OP_ALL_GATHER] = run_all_gather,
    [OP_REDUCE_SCATTER] = run_reduce_scatter,
};

static bool is_wanted(const struct op *op, enum gradients gradients)
{
    if (gradients == GRADIENTS_OF_INPUTS)
        return op->pass == PASS_BACKWARD_INPUT;
    return gradients == GRADIENTS_ALL || op->pass == PASS_BACKWARD_WEIGHT;
}

static int run_wanted(struct flow *flow, const struct ops *list, int i, enum gradients gradients)
{
    if (is_wanted(&list->at[i], gradients))
        flow_run(flow, list, i, handlers);
    return i + 1;
}

/* Without its weights' gradients the embedding has none to pass on: it keeps what came. */
static void keep_for_embedding(struct flow *flow)
{
    const struct ops *list = &flow->part->ops->backward;
    if (flow->part->kind != PART_EMBEDDING || !flow->x.at)
        return;
    *kept_gradient(flow, list->count - 1) = flow->x.at;
    flow->x = (struct value){ 0 };
}

void *machine_backward(struct machine *machine, const struct part *part,
                       const struct microbatch *microbatch, struct record *record,
                       void *output_gradient_at, enum gradients gradients)
{
    struct flow flow = { .machine = machine,
                         .part = part,
                         .microbatch = microbatch,
                         .record = record,
                         .leaves_out = gradients != GRADIENTS_ALL };
    struct value given = { output_gradient_at, output_gradient_at != NULL };
    *(part->kind == PART_EMBEDDING ? &flow.x : &flow.h) = given;
    const struct ops *list = &part->ops->backward;
    for (int i = 0; i < list->count;)
        i = list->at[i].chunks > 1 ? head_backward_runs(&flow, list, i)
                                   : run_wanted(&flow, list, i, gradients);
    flow_finish(&flow);
    if (gradients == GRADIENTS_OF_INPUTS)
        keep_for_embedding(&flow);
    return flow.h.at;
}
