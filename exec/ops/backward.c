#include "exec/ops/head.h"

/* Handlers of the backward ops: each issues the kernels of one kind of op. An op's first operands
 * are gradients. Its further operands are values that the forward kept. */

/* --- products ----------------------------------------------------------------------------- */

/* Address of element `first` of a weight's fp32 gradients; NULL: the weight is frozen, or the op
 * has no such weight. */
static float *gradient_from(const struct flow *flow, const struct op *op, enum weight_role role,
                            double first)
{
    float *gradient = piece_gradient(flow->piece, op, role);
    return gradient ? gradient + (size_t)first : NULL;
}

static void run_bias_gradient(struct flow *flow, const struct op *op)
{
    const void *dy = flow_in(flow, op, 0);
    for (int group = 0; group < (int)op->batch; group++)
        ISSUE(flow, linear_bias_gradient, linear_bias_gradient, .rows = (long)op->m,
              .width = (long)op->n, .dy = flow_from(flow, dy, group * op->m * op->n),
              .dbias = gradient_from(flow, op, WEIGHT_BIAS, group * op->n));
}

/* The op's dimensions m, n and k are the rows, inputs and outputs of the layer. If the op also
 * contains the backward of the activation before the layer, it reads the activation's input. */
static void run_input_gradient(struct flow *flow, const struct op *op)
{
    const void *dy = flow_in(flow, op, 0), *weight = piece_value(flow->piece, op, WEIGHT_MATRIX);
    const void *before_gelu = op->in.count > 1 ? flow_in(flow, op, 1) : NULL;
    void *dx = flow_out(flow, op, 0);
    for (int group = 0; group < (int)op->batch; group++)
        ISSUE(flow, linear_input_gradient, linear_input_gradient, .rows = (long)op->m,
              .out = (long)op->k, .in = (long)op->n,
              .dy = flow_from(flow, dy, group * op->m * op->k),
              .weight = flow_from(flow, weight, group * op->k * op->n),
              .dx = flow_from(flow, dx, group * op->m * op->n),
              .before_gelu = flow_from(flow, before_gelu, group * op->m * op->n));
}

/* The op's dimensions m, n and k are the outputs, inputs and rows of the layer. */
static void run_weight_gradient(struct flow *flow, const struct op *op)
{
    const void *dy = flow_in(flow, op, 0), *x = flow_in(flow, op, 1);
    for (int group = 0; group < (int)op->batch; group++)
        ISSUE(flow, linear_weight_gradient, linear_weight_gradient, .rows = (long)op->k,
              .out = (long)op->m, .in = (long)op->n,
              .dy = flow_from(flow, dy, group * op->k * op->m),
              .x = flow_from(flow, x, group * op->k * op->n),
              .dweight = gradient_from(flow, op, WEIGHT_MATRIX, group * op->m * op->n),
              .dbias = gradient_from(flow, op, WEIGHT_BIAS, group * op->m));
}

static void run_gemm(struct flow *flow, const struct op *op)
{
    if (op->pass == PASS_BACKWARD_INPUT)
        run_input_gradient(flow, op);
    else
        run_weight_gradient(flow, op);
}

/* --- norms, activation, residual ---------------------------------------------------------- */

/* Norm kernels write the gradients of all weights; those of frozen weights go to `spare` memory,
 * which is never read. */
static float *norm_gradient(struct flow *flow, const struct op *op, enum weight_role role,
                            void **spare)
{
    const struct op_weight *weight = op_weight_of(flow->list, op, role);
    if (!weight || !weight->is_frozen)
        return piece_gradient(flow->piece, op, role);
    *spare = machine_take(flow->machine, sizeof(float) * (size_t)(weight->rows * weight->columns));
    return *spare;
}

static void run_head_norm(struct flow *flow, const struct op *op)
{
    void *spare = NULL;
    float *dscale = norm_gradient(flow, op, WEIGHT_SCALE, &spare);
    ISSUE(flow, head_norm_backward, head_norm_backward, .attention = flow_attention(flow),
          .scale = piece_value(flow->piece, op, WEIGHT_SCALE), .inputs = flow_in(flow, op, 1),
          .statistics = flow_in(flow, op, 2), .dqkv = flow_in_place(flow, op, 0), .dscale = dscale);
    machine_give_back(flow->machine, spare);
}

/* Writes the result to the memory of the incoming gradient or, if the result is added to another
 * gradient, to the memory of that gradient. */
static void run_norm(struct flow *flow, const struct op *op)
{
    if (flow_is_head_norm(flow, op)) {
        run_head_norm(flow, op);
        return;
    }
    void *spare[2] = { NULL };
    float *dscale = norm_gradient(flow, op, WEIGHT_SCALE, &spare[0]);
    float *dshift = norm_gradient(flow, op, WEIGHT_SHIFT, &spare[1]);
    void *dy = flow_in(flow, op, 0), *stream = op->adds_sum ? flow_at(flow, op->sum[0]) : NULL;
    void *dx = stream ? flow_add_in_place(flow, op) : flow_in_place(flow, op, 0);
    ISSUE(flow, norm_backward, norm_backward, .norm = flow_norm(flow, op), .kind = op->which,
          .dy = dy, .x = flow_in(flow, op, 1), .scale = piece_value(flow->piece, op, WEIGHT_SCALE),
          .statistics = flow_in(flow, op, 2), .dx = dx, .dscale = dscale, .dshift = dshift,
          .stream = stream);
    for (int i = 0; i < 2; i++)
        machine_give_back(flow->machine, spare[i]);
}

static void run_activation(struct flow *flow, const struct op *op)
{
    ISSUE(flow, activation_gradient, activation_gradient, .shape = flow_activation(op),
          .dy = flow_in(flow, op, 0), .x = flow_in(flow, op, 1), .dx = flow_out(flow, op, 0));
}

/* If the gradient of the residual stream is passed on unchanged, the branch's gradient needs
 * separate memory. */
static void run_residual(struct flow *flow, const struct op *op)
{
    bool drops = op->in.count > 1; /* the op reads dropout's mask */
    const void *dy = flow_in(flow, op, 0);
    void *dx = flow_is_read_last(flow, (int)(op - flow->list->at), op->in.at[0])
                   ? flow_in_place(flow, op, 0)
                   : flow_out(flow, op, 0);
    ISSUE(flow, residual_gradient, residual_gradient, .residual = flow_residual(flow, op), .dy = dy,
          .keeps = drops ? flow_in(flow, op, 1) : NULL, .dx = dx);
}

/* --- attention ---------------------------------------------------------------------------- */

static void run_rotary(struct flow *flow, const struct op *op)
{
    ISSUE(flow, rotary_backward, rotary, .attention = flow_attention(flow),
          .rope_cos_sin = flow->machine->rope_cos_sin, .qkv = flow_in_place(flow, op, 0));
}

/* Makes the gradients of queries, and of keys and values of another sequence. */
static void run_cross_attention(struct flow *flow, const struct op *op)
{
    ISSUE(flow, cross_backward, cross_backward,
          .attention = flow_cross_attention(flow, op, op->in.at[2]),
          .dcontext = flow_in(flow, op, 0), .queries = flow_in(flow, op, 1),
          .key_values = flow_in(flow, op, 2), .log_sums = flow_in(flow, op, 3),
          .context = flow_in(flow, op, 4), .dqueries = flow_out(flow, op, 0),
          .dkey_values = flow_out(flow, op, 1));
}

static void run_flash(struct flow *flow, const struct op *op)
{
    if (op->out.count > 1) {
        run_cross_attention(flow, op);
        return;
    }
    struct machine *m = flow->machine;
    struct attention attention = flow_attention(flow);
    void *dqkv = flow_out(flow, op, 0);
    void *scratch = machine_take(m, m->kernel_api->flash_scratch_bytes(m->kernels, &attention));
    ISSUE(flow, flash_backward, flash_backward, .attention = attention,
          .dcontext = flow_in(flow, op, 0), .qkv = flow_in(flow, op, 1),
          .log_sums = flow_in(flow, op, 2), .context = flow_in(flow, op, 3), .dqkv = dqkv,
          .scratch = scratch);
    machine_give_back(m, scratch);
}

/* The product of probabilities and values has two backward products: one for the gradient of the
 * probabilities, one for the gradient of the values. */
static void run_context(struct flow *flow, const struct op *op)
{
    struct machine *m = flow->machine;
    struct context_backward args = { .attention = flow_attention(flow),
                                     .dcontext = flow_in(flow, op, 0),
                                     .dropped = flow_in(flow, op, 1),
                                     .qkv = flow_in(flow, op, 2) };
    if (flow_form(flow, op->out.at[0]) == VALUE_HEADS) {
        args.dqkv = flow_out(flow, op, 0);
        m->kernel_api->context_value_gradient(m->kernels, m->compute, &args);
    } else {
        args.ddropped = flow_out(flow, op, 0);
        m->kernel_api->context_probability_gradient(m->kernels, m->compute, &args);
    }
}

static void run_softmax(struct flow *flow, const struct op *op)
{
    void *dscores = flow_in_place(flow, op, 0);
    ISSUE(flow, softmax_backward, softmax_backward, .attention = flow_attention(flow),
          .ddropped = dscores, .probabilities = flow_in(flow, op, 1),
          .keeps = op->in.count > 2 ? flow_in(flow, op, 2) : NULL, .dscores = dscores);
}

/* A backward list has two OP_SCORES: the first makes the gradient of queries, the second that of
 * keys. Both add to an array that run_context has already written. The second adds to the result of
 * the first. */
static void run_scores(struct flow *flow, const struct op *op)
{
    struct machine *m = flow->machine;
    bool is_second = flow->list->at[ops_maker(flow->list, op->sum[0])].kind == OP_SCORES;
    struct scores_backward args = { .attention = flow_attention(flow),
                                    .dscores = flow_in(flow, op, 0),
                                    .qkv = flow_in(flow, op, 1),
                                    .dqkv = flow_add_in_place(flow, op) };
    if (is_second)
        m->kernel_api->scores_key_gradient(m->kernels, m->compute, &args);
    else
        m->kernel_api->scores_query_gradient(m->kernels, m->compute, &args);
}

/* --- experts ------------------------------------------------------------------------------ */

static void run_route(struct flow *flow, const struct op *op)
{
    ISSUE(flow, route_backward, route_backward, .route = flow_route(op),
          .dshares = flow_in(flow, op, 0), .shares = flow_in(flow, op, 1),
          .places = flow_in(flow, op, 2), .dlogits = flow_out(flow, op, 0));
}

static void run_dispatch(struct flow *flow, const struct op *op)
{
    ISSUE(flow, gather, passage_args, .passage = flow_passage(flow, op, op->in.at[0]),
          .x = flow_in(flow, op, 0), .places = flow_in(flow, op, 1), .y = flow_out(flow, op, 0));
}

/* Makes the gradients of the experts' output rows, and of their shares (the router's weights of
 * these rows). */
static void run_combine(struct flow *flow, const struct op *op)
{
    struct passage passage = flow_passage(flow, op, op->out.at[0]);
    const void *dy = flow_in(flow, op, 0), *x = flow_in(flow, op, 1);
    const float *shares = flow_in(flow, op, 2);
    const int32_t *places = flow_in(flow, op, 3);
    ISSUE(flow, spread, passage_args, .passage = passage, .x = dy, .shares = shares,
          .places = places, .y = flow_out(flow, op, 0));
    ISSUE(flow, share_gradient, share_gradient, .passage = passage, .dy = dy, .x = x,
          .places = places, .dshares = flow_out(flow, op, 1));
}

/* --- tokens ------------------------------------------------------------------------------- */

static void run_embedding(struct flow *flow, const struct op *op)
{
    ISSUE(flow, embedding_gradient, embedding_gradient, .embedding = flow_embedding(flow, op),
          .seq = (long)flow->machine->dims.seq, .dy = flow_in(flow, op, 0),
          .ids = flow_in(flow, op, 1), .dtable = piece_gradient(flow->piece, op, WEIGHT_TABLE),
          .dpositions = piece_gradient(flow->piece, op, WEIGHT_POSITIONS));
}

/* The gradient overwrites the logits. */
static void run_cross_entropy(struct flow *flow, const struct op *op)
{
    void *logits = flow_in_place(flow, op, 0);
    flow->rows = (struct rows){ 0, (long)op->m };
    head_find_gradient(flow, op, logits, 1);
}

/* --- collectives -------------------------------------------------------------------------- */

static void run_all_reduce(struct flow *flow, const struct op *op)
{
    void *x = flow_in_place(flow, op, 0);
    flow_collective(flow, op, COMM_ALL_REDUCE, x, x, op->m * op->n);
}

static flow_op *const handlers[NUM_OP_KINDS] = {
    [OP_GEMM] = run_gemm,
    [OP_SCORES] = run_scores,
    [OP_SOFTMAX] = run_softmax,
    [OP_ATTENTION_VALUES] = run_context,
    [OP_FLASH_ATTENTION] = run_flash,
    [OP_NORM] = run_norm,
    [OP_ACTIVATION] = run_activation,
    [OP_ROTARY] = run_rotary,
    [OP_RESIDUAL] = run_residual,
    [OP_ROUTE] = run_route,
    [OP_DISPATCH] = run_dispatch,
    [OP_COMBINE] = run_combine,
    [OP_EMBEDDING] = run_embedding,
    [OP_CROSS_ENTROPY] = run_cross_entropy,
    [OP_BIAS_GRAD] = run_bias_gradient,
    [OP_ALL_REDUCE] = run_all_reduce,
    [OP_ALL_GATHER] = flow_all_gather,
    [OP_REDUCE_SCATTER] = flow_reduce_scatter,
};

static bool is_wanted(const struct op *op, enum gradients gradients)
{
    if (gradients == GRADIENTS_OF_INPUTS)
        return op->pass == PASS_BACKWARD_INPUT;
    return gradients == GRADIENTS_ALL || op->pass == PASS_BACKWARD_WEIGHT;
}

static int run_wanted(struct flow *flow, int i, enum gradients gradients)
{
    if (!is_wanted(&flow->list->at[i], gradients))
        return i + 1;
    flow_run(flow, i, handlers);
    flow_free_read(flow, i);
    return i + 1;
}

void *machine_backward(struct machine *machine, const struct piece *piece,
                       const struct microbatch *microbatch, struct record *record,
                       void *output_gradient, enum gradients gradients)
{
    bool in_halves = gradients != GRADIENTS_ALL;
    const struct lifetimes *lifetimes = piece->lifetimes;
    struct flow flow = { .machine = machine,
                         .piece = piece,
                         .list = &piece->ops->backward,
                         .last = in_halves ? &lifetimes->halves : &lifetimes->backward,
                         .microbatch = microbatch,
                         .record = record,
                         .leaves_out = in_halves };
    const struct ops *list = flow.list;
    if (output_gradient)
        record->values[list->input] = output_gradient;
    for (int i = 0; i < list->count;)
        i = list->at[i].row_blocks > 1 ? head_backward_blocks(&flow, i)
                                       : run_wanted(&flow, i, gradients);
    flow_finish(&flow);
    return flow_take(&flow, list->output);
}
