/* Handlers of the forward ops. Each finds the memory of an op's operands and outputs, and issues
 * its kernel. */
#include "exec/ops/head.h"

/* --- ops ---------------------------------------------------------------------------------- */

/* With a fused activation the op writes the activation's input, then its output. Partial sums of
 * tensor ranks get their bias after they are summed. The groups of a batched product are contiguous
 * in all operands. */
static void run_gemm(struct flow *flow, const struct op *op)
{
    const struct piece *piece = flow->piece;
    bool is_partial = op_weight_of(flow->list, op, WEIGHT_MATRIX)->split == SPLIT_COLUMNS;
    bool makes_two = op->out.count > 1;
    const void *x = flow_in(flow, op, 0), *weight = piece_value(piece, op, WEIGHT_MATRIX);
    const void *bias = is_partial ? NULL : piece_value(piece, op, WEIGHT_BIAS);
    void *before_gelu = makes_two ? flow_out(flow, op, 0) : NULL;
    void *y = flow_out(flow, op, makes_two);
    for (int group = 0; group < (int)op->batch; group++)
        ISSUE(flow, linear_forward, linear_forward, .rows = (long)op->m, .out = (long)op->n,
              .in = (long)op->k, .x = flow_from(flow, x, group * op->m * op->k),
              .weight = flow_from(flow, weight, group * op->n * op->k),
              .bias = flow_from(flow, bias, group * op->n),
              .y = flow_from(flow, y, group * op->m * op->n),
              .before_gelu = flow_from(flow, before_gelu, group * op->m * op->n));
}

/* Outputs: the normalised values (in place), a copy of the input, and the statistics. */
static void run_head_norm(struct flow *flow, const struct op *op)
{
    void *inputs = flow_out(flow, op, 1);
    float *statistics = flow_out(flow, op, 2);
    ISSUE(flow, head_norm_forward, head_norm_forward, .attention = flow_attention(flow),
          .epsilon = flow->machine->norm_epsilon,
          .scale = piece_value(flow->piece, op, WEIGHT_SCALE), .qkv = flow_in_place(flow, op, 0),
          .inputs = inputs, .statistics = statistics);
}

/* The norm of `x`; its output and statistics are the op's last two outputs. */
static struct norm_forward norm_of(struct flow *flow, const struct op *op, const void *x)
{
    int made = op->out.count - 2;
    return (struct norm_forward){ .norm = flow_norm(flow, op),
                                  .kind = op->which,
                                  .x = x,
                                  .scale = piece_value(flow->piece, op, WEIGHT_SCALE),
                                  .shift = piece_value(flow->piece, op, WEIGHT_SHIFT),
                                  .y = flow_out(flow, op, made),
                                  .statistics = flow_out(flow, op, made + 1) };
}

static void run_norm(struct flow *flow, const struct op *op)
{
    if (flow_is_head_norm(flow, op)) {
        run_head_norm(flow, op);
        return;
    }
    struct norm_forward args = norm_of(flow, op, flow_in(flow, op, 0));
    struct machine *m = flow->machine;
    m->kernel_api->norm_forward(m->kernels, m->compute, &args);
}

static void run_rotary(struct flow *flow, const struct op *op)
{
    ISSUE(flow, rotary_forward, rotary, .attention = flow_attention(flow),
          .rope_cos_sin = flow->machine->rope_cos_sin, .qkv = flow_in_place(flow, op, 0));
}

/* Reads queries, and keys and values of another sequence. */
static void run_cross_attention(struct flow *flow, const struct op *op)
{
    ISSUE(flow, cross_forward, cross_forward,
          .attention = flow_cross_attention(flow, op, op->in.at[1]),
          .queries = flow_in(flow, op, 0), .key_values = flow_in(flow, op, 1),
          .context = flow_out(flow, op, 0), .log_sums = flow_out(flow, op, 1));
}

static void run_flash(struct flow *flow, const struct op *op)
{
    if (op->in.count > 1) {
        run_cross_attention(flow, op);
        return;
    }
    struct machine *m = flow->machine;
    struct attention attention = flow_attention(flow);
    void *context = flow_out(flow, op, 0);
    float *log_sums = flow_out(flow, op, 1);
    void *scratch = machine_take(m, m->kernel_api->flash_scratch_bytes(m->kernels, &attention));
    ISSUE(flow, flash_forward, flash_forward, .attention = attention, .qkv = flow_in(flow, op, 0),
          .context = context, .log_sums = log_sums, .scratch = scratch);
    machine_give_back(m, scratch);
}

static void run_scores(struct flow *flow, const struct op *op)
{
    ISSUE(flow, scores, scores, .attention = flow_attention(flow), .qkv = flow_in(flow, op, 0),
          .scores = flow_out(flow, op, 0));
}

/* Outputs: probabilities and, with dropout, the mask and the dropped probabilities. */
static void run_softmax(struct flow *flow, const struct op *op)
{
    bool drops = op->out.count > 1;
    ISSUE(flow, softmax, softmax, .attention = flow_attention(flow), .scores = flow_in(flow, op, 0),
          .probabilities = flow_out(flow, op, 0), .keeps = drops ? flow_out(flow, op, 1) : NULL,
          .dropped = drops ? flow_out(flow, op, 2) : NULL);
}

static void run_context(struct flow *flow, const struct op *op)
{
    ISSUE(flow, context, context, .attention = flow_attention(flow),
          .dropped = flow_in(flow, op, 0), .qkv = flow_in(flow, op, 1),
          .context = flow_out(flow, op, 0));
}

static void run_activation(struct flow *flow, const struct op *op)
{
    ISSUE(flow, activation, activation_args, .shape = flow_activation(op),
          .x = flow_in(flow, op, 0), .y = flow_out(flow, op, 0));
}

/* The op adds a branch to the residual stream if it has the stream as its second operand. With
 * dropout it also makes a mask. */
static struct residual_args residual_of(struct flow *flow, const struct op *op)
{
    bool drops = op->out.count > 1 && flow_form(flow, op->out.at[1]) == VALUE_MASK;
    return (struct residual_args){ .residual = flow_residual(flow, op),
                                   .x = flow_in(flow, op, 0),
                                   .bias = piece_value(flow->piece, op, WEIGHT_BIAS),
                                   .h = op->in.count > 1 ? flow_in(flow, op, 1) : NULL,
                                   .keeps = drops ? flow_out(flow, op, 1) : NULL,
                                   .y = flow_out(flow, op, 0) };
}

/* If the op has a scale, it also normalises the sum. */
static void run_residual(struct flow *flow, const struct op *op)
{
    struct machine *m = flow->machine;
    struct residual_args args = residual_of(flow, op);
    if (op_weight_of(flow->list, op, WEIGHT_SCALE))
        ISSUE(flow, residual_norm, residual_norm, .residual = args,
              .norm = norm_of(flow, op, args.y));
    else
        m->kernel_api->residual(m->kernels, m->compute, &args);
}

/* --- experts ------------------------------------------------------------------------------ */

static void run_route(struct flow *flow, const struct op *op)
{
    ISSUE(flow, route_forward, route_forward, .route = flow_route(op),
          .logits = flow_in(flow, op, 0), .shares = flow_out(flow, op, 0),
          .places = flow_out(flow, op, 1));
}

static void run_dispatch(struct flow *flow, const struct op *op)
{
    ISSUE(flow, spread, passage_args, .passage = flow_passage(flow, op, op->out.at[0]),
          .x = flow_in(flow, op, 0), .places = flow_in(flow, op, 1), .y = flow_out(flow, op, 0));
}

static void run_combine(struct flow *flow, const struct op *op)
{
    ISSUE(flow, gather, passage_args, .passage = flow_passage(flow, op, op->in.at[0]),
          .x = flow_in(flow, op, 0), .shares = flow_in(flow, op, 1), .places = flow_in(flow, op, 2),
          .y = flow_out(flow, op, 0));
}

/* --- tokens ------------------------------------------------------------------------------- */

/* Only one tensor rank adds the positions, as the rows of all ranks are summed afterwards. */
static void run_embedding(struct flow *flow, const struct op *op)
{
    struct machine *m = flow->machine;
    int64_t *ids = flow_in(flow, op, 0);
    m->device_api->copy(m->compute, ids, flow->microbatch->ids, sizeof *ids * (size_t)op->m);
    const void *positions = piece_value(flow->piece, op, WEIGHT_POSITIONS);
    ISSUE(flow, embedding, embedding_args, .embedding = flow_embedding(flow, op),
          .seq = (long)m->dims.seq, .ids = ids, .table = piece_value(flow->piece, op, WEIGHT_TABLE),
          .positions = m->tensor_rank == 0 ? positions : NULL, .y = flow_out(flow, op, 0));
}

/* --- the loss ----------------------------------------------------------------------------- */

/* The loss of all rows at once. */
static void run_cross_entropy(struct flow *flow, const struct op *op)
{
    flow->rows = (struct rows){ 0, (long)op->m };
    head_find_loss(flow, op);
}

/* --- collectives -------------------------------------------------------------------------- */

static void run_all_reduce(struct flow *flow, const struct op *op)
{
    if (!op_is_in_place(flow->list, op)) {
        flow->rows = (struct rows){ 0, (long)op->m };
        head_reduce_rows(flow, op);
        return;
    }
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
    [OP_ALL_REDUCE] = run_all_reduce,
    [OP_ALL_GATHER] = flow_all_gather,
    [OP_REDUCE_SCATTER] = flow_reduce_scatter,
};

static int run_op(struct flow *flow, int i)
{
    flow_run(flow, i, handlers);
    flow_free_read(flow, i);
    return i + 1;
}

static struct flow flow_of(struct machine *machine, const struct piece *piece,
                           const struct microbatch *microbatch, struct record *record)
{
    return (struct flow){ .machine = machine,
                          .piece = piece,
                          .list = &piece->ops->forward,
                          .last = &piece->lifetimes->forward,
                          .microbatch = microbatch,
                          .record = record };
}

void *machine_forward(struct machine *machine, const struct piece *piece,
                      const struct microbatch *microbatch, struct record *record, void *input)
{
    struct flow flow = flow_of(machine, piece, microbatch, record);
    const struct ops *list = flow.list;
    if (list->input != NO_ID)
        record->values[list->input] = input;
    for (int i = 0; i < list->count;)
        i = list->at[i].row_blocks > 1 ? head_forward_blocks(&flow, i) : run_op(&flow, i);
    flow_finish(&flow);
    return flow_take(&flow, list->output);
}

/* Outputs that no op of the replay (the recomputed ops) reads are freed. */
void machine_replay(struct machine *machine, const struct piece *piece,
                    const struct microbatch *microbatch, struct record *record)
{
    struct flow flow = flow_of(machine, piece, microbatch, record);
    flow.last = piece->last_again;
    flow.leaves_out = true;
    for (int i = 0; i < flow.list->count; i++) {
        const struct op *op = &flow.list->at[i];
        if (!piece->is_again[i])
            continue;
        run_op(&flow, i);
        for (int j = 0; j < op->out.count; j++)
            if (flow.last->of[op->out.at[j]] < 0)
                flow_free(&flow, op->out.at[j]);
    }
    flow_finish(&flow);
}
