#include "exec/head.h"

/* First of what an op reads is a gradient, then what its forward kept. */

/* --- products ----------------------------------------------------------------------------- */

static void run_bias_gradient(struct flow *flow, const struct op *op)
{
    ISSUE(flow, linear_bias_gradient, linear_bias_gradient, .rows = (long)op->m,
          .width = (long)op->n, .dy = flow_in(flow, op, 0),
          .dbias = part_gradient(flow->part, op, WEIGHT_BIAS));
}

/* An op of the backward has m rows, n inputs and k outputs of the layer. One that also does the
 * activation before it reads what that was of. */
static void run_input_gradient(struct flow *flow, const struct op *op)
{
    ISSUE(flow, linear_input_gradient, linear_input_gradient, .rows = (long)op->m,
          .out = (long)op->k, .in = (long)op->n, .dy = flow_in(flow, op, 0),
          .weight = part_value(flow->part, op, WEIGHT_MATRIX), .dx = flow_out(flow, op, 0),
          .before_gelu = op->in.count > 1 ? flow_in(flow, op, 1) : NULL);
}

/* ... and here m outputs, n inputs and k rows. */
static void run_weight_gradient(struct flow *flow, const struct op *op)
{
    ISSUE(flow, linear_weight_gradient, linear_weight_gradient, .rows = (long)op->k,
          .out = (long)op->m, .in = (long)op->n, .dy = flow_in(flow, op, 0),
          .x = flow_in(flow, op, 1), .dweight = part_gradient(flow->part, op, WEIGHT_MATRIX),
          .dbias = part_gradient(flow->part, op, WEIGHT_BIAS));
}

static void run_gemm(struct flow *flow, const struct op *op)
{
    if (op->pass == PASS_BACKWARD_INPUT)
        run_input_gradient(flow, op);
    else
        run_weight_gradient(flow, op);
}

/* --- norms, activation, residual ---------------------------------------------------------- */

static void run_head_norm(struct flow *flow, const struct op *op)
{
    ISSUE(flow, head_norm_backward, head_norm_backward, .attention = flow_attention(flow),
          .scale = part_value(flow->part, op, WEIGHT_SCALE), .inputs = flow_in(flow, op, 1),
          .statistics = flow_in(flow, op, 2), .dqkv = flow_in_place(flow, op, 0),
          .dscale = part_gradient(flow->part, op, WEIGHT_SCALE));
}

/* In the memory of the gradient that came, or of the one that it is added to. */
static void run_norm(struct flow *flow, const struct op *op)
{
    const struct part *part = flow->part;
    if (flow_is_head_norm(flow, op)) {
        run_head_norm(flow, op);
        return;
    }
    void *dy = flow_in(flow, op, 0), *stream = op->adds_sum ? flow_at(flow, op->sum) : NULL;
    void *dx = stream ? flow_add_in_place(flow, op) : flow_in_place(flow, op, 0);
    ISSUE(flow, norm_backward, norm_backward, .norm = flow_norm(flow, op),
          .kind = flow->machine->model->norm, .dy = dy, .x = flow_in(flow, op, 1),
          .scale = part_value(part, op, WEIGHT_SCALE), .statistics = flow_in(flow, op, 2), .dx = dx,
          .dscale = part_gradient(part, op, WEIGHT_SCALE),
          .dshift = part_gradient(part, op, WEIGHT_SHIFT), .stream = stream);
}

static void run_activation(struct flow *flow, const struct op *op)
{
    ISSUE(flow, activation_gradient, activation_gradient, .shape = flow_activation(flow, op),
          .dy = flow_in(flow, op, 0), .x = flow_in(flow, op, 1), .dx = flow_out(flow, op, 0));
}

/* Where the stream's gradient goes on, the branch's is another. */
static void run_residual(struct flow *flow, const struct op *op)
{
    bool drops = flow->machine->model->dropout > 0;
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
          .turns = flow->machine->turns, .qkv = flow_in_place(flow, op, 0));
}

static void run_flash(struct flow *flow, const struct op *op)
{
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

static bool makes_heads(const struct flow *flow, const struct op *op)
{
    return flow->list->operands->values[op->out.at[0]].form == VALUE_HEADS;
}

/* One product makes the gradient of the probabilities, one that of the values. */
static void run_context(struct flow *flow, const struct op *op)
{
    struct machine *m = flow->machine;
    struct context_backward args = { .attention = flow_attention(flow),
                                     .dcontext = flow_in(flow, op, 0),
                                     .dropped = flow_in(flow, op, 1),
                                     .qkv = flow_in(flow, op, 2) };
    if (makes_heads(flow, op)) {
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

/* Both write to the gradient of queries, keys and values that the context's product began; the one
 * that adds to the other's is the keys'. */
static void run_scores(struct flow *flow, const struct op *op)
{
    struct machine *m = flow->machine;
    bool is_second = flow->list->at[ops_maker(flow->list, op->sum)].kind == OP_SCORES;
    struct scores_backward args = { .attention = flow_attention(flow),
                                    .dscores = flow_in(flow, op, 0),
                                    .qkv = flow_in(flow, op, 1),
                                    .dqkv = flow_add_in_place(flow, op) };
    if (is_second)
        m->kernel_api->scores_key_gradient(m->kernels, m->compute, &args);
    else
        m->kernel_api->scores_query_gradient(m->kernels, m->compute, &args);
}

/* --- tokens ------------------------------------------------------------------------------- */

static void run_embedding(struct flow *flow, const struct op *op)
{
    ISSUE(flow, embedding_gradient, embedding_gradient, .embedding = flow_embedding(flow, op),
          .seq = (long)flow->machine->dims.seq, .dy = flow_in(flow, op, 0),
          .ids = flow_in(flow, op, 1), .dtable = part_gradient(flow->part, op, WEIGHT_TABLE),
          .dpositions = part_gradient(flow->part, op, WEIGHT_POSITIONS));
}

/* In the memory of the logits. */
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

static void run_all_gather(struct flow *flow, const struct op *op)
{
    flow_collective(flow, op, COMM_ALL_GATHER, flow_in(flow, op, 0), flow_out(flow, op, 0),
                    op->m * op->n / flow->machine->plan->tp);
}

static void run_reduce_scatter(struct flow *flow, const struct op *op)
{
    flow_collective(flow, op, COMM_REDUCE_SCATTER, flow_in(flow, op, 0), flow_out(flow, op, 0),
                    op->m * op->n / flow->machine->plan->tp);
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

static int run_wanted(struct flow *flow, int i, enum gradients gradients)
{
    if (!is_wanted(&flow->list->at[i], gradients))
        return i + 1;
    flow_run(flow, i, handlers);
    flow_free_read(flow, i);
    return i + 1;
}

void *machine_backward(struct machine *machine, const struct part *part,
                       const struct microbatch *microbatch, struct record *record,
                       void *output_gradient, enum gradients gradients)
{
    bool in_halves = gradients != GRADIENTS_ALL;
    const struct lifetimes *lifetimes = part->lifetimes;
    struct flow flow = { .machine = machine,
                         .part = part,
                         .list = &part->ops->backward,
                         .last = in_halves ? &lifetimes->halves : &lifetimes->backward,
                         .microbatch = microbatch,
                         .record = record,
                         .leaves_out = in_halves };
    const struct ops *list = flow.list;
    if (output_gradient)
        record->values[list->input] = output_gradient;
    for (int i = 0; i < list->count;)
        i = list->at[i].chunks > 1 ? head_backward_runs(&flow, i) : run_wanted(&flow, i, gradients);
    flow_finish(&flow);
    return flow_take(&flow, list->output);
}
