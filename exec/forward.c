#include "exec/head.h"

#include <string.h>

static const struct ops *list_of(const struct flow *flow)
{
    return &flow->part->ops->forward;
}

/* --- where an output goes ----------------------------------------------------------------- */

static bool is_in_place(const struct op *op)
{
    return op->kind == OP_ROTARY || flow_is_head_norm(op);
}

/* The slot in which the op at `i` keeps its input; NULL when it keeps none. */
static void *kept_input(const struct flow *flow, int i)
{
    const struct op *op = &list_of(flow)->at[i];
    switch (op->kind) {
    case OP_GEMM:
    case OP_ACTIVATION:
    case OP_NORM:
        return flow_own_slot(flow, i);
    case OP_FLASH_ATTENTION:
    case OP_SCORES:
        return flow_input_slot(flow, i);
    case OP_ALL_GATHER: /* the product behind it keeps a rank's rows */
        return flow_own_slot(flow, i + 1);
    default:
        return NULL;
    }
}

/* Where the op at `i` writes: into the slot that keeps what comes next, else into memory of its
 * own. */
static struct value new_output(struct flow *flow, int i, double elements)
{
    int next = i + 1;
    while (next < list_of(flow)->count && is_in_place(&list_of(flow)->at[next]))
        next++;
    void *slot = next < list_of(flow)->count ? kept_input(flow, next) : NULL;
    return slot ? (struct value){ slot, false } : flow_new(flow, elements);
}

/* --- ops ---------------------------------------------------------------------------------- */

static void run_gemm(struct flow *flow, const struct op *op, int i)
{
    const struct part *part = flow->part;
    struct value y = new_output(flow, i, op->m * op->n);
    ISSUE(flow, linear_forward, linear_forward, .rows = (long)op->m, .out = (long)op->n,
          .in = (long)op->k, .x = flow->x.at, .weight = part_value(part, op->name, WEIGHT_MATRIX),
          .bias = op->column_parallel ? part_value(part, op->name, WEIGHT_BIAS) : NULL, .y = y.at,
          .before_gelu = op->folded ? flow_folded_slot(flow, i) : NULL);
    flow_replace(flow, &flow->x, y);
}

static void run_head_norm(struct flow *flow, const struct op *op, int i)
{
    void *inputs = flow_own_slot(flow, i);
    ISSUE(flow, head_norm_forward, head_norm_forward, .attention = flow_attention(flow),
          .epsilon = flow->machine->norm_epsilon,
          .scale = part_value(flow->part, op->name, WEIGHT_SCALE), .qkv = flow->x.at,
          .inputs = inputs, .statistics = flow_statistics(flow, inputs, op->m * op->n));
}

/* The stream's value is already in the slot when the residual before put it there. */
static void *keep_stream(struct flow *flow, struct value *from, const struct op *op, int i)
{
    struct machine *m = flow->machine;
    void *slot = flow_own_slot(flow, i);
    if (from->at != slot)
        m->device_api->copy(m->compute, slot, from->at, machine_bytes(m, op->m * op->n));
    return slot;
}

static struct norm_forward norm_of(const struct flow *flow, const struct op *op, void *x, void *y)
{
    return (struct norm_forward){ .norm = flow_norm(flow, op),
                                  .kind = flow->machine->model->norm,
                                  .x = x,
                                  .scale = part_value(flow->part, op->name, WEIGHT_SCALE),
                                  .shift = part_value(flow->part, op->name, WEIGHT_SHIFT),
                                  .y = y,
                                  .statistics = flow_statistics(flow, x, op->m * op->n) };
}

static void run_norm(struct flow *flow, const struct op *op, int i)
{
    if (flow_is_head_norm(op)) {
        run_head_norm(flow, op, i);
        return;
    }
    struct value *from = flow->part->kind == PART_EMBEDDING ? &flow->x : &flow->h;
    void *kept = keep_stream(flow, from, op, i);
    struct value y = new_output(flow, i, op->m * op->n);
    struct norm_forward args = norm_of(flow, op, kept, y.at);
    struct machine *m = flow->machine;
    m->kernel_api->norm_forward(m->kernels, m->compute, &args);
    flow_replace(flow, &flow->x, y);
}

static void run_rotary(struct flow *flow, const struct op *op, int i)
{
    (void)op, (void)i;
    ISSUE(flow, rotary_forward, rotary, .attention = flow_attention(flow),
          .turns = flow->machine->turns, .qkv = flow->x.at);
}

static double context_elements(const struct flow *flow)
{
    struct attention attention = flow_attention(flow);
    return (double)attention_tokens(&attention) * (double)attention_context_width(&attention);
}

static void run_flash(struct flow *flow, const struct op *op, int i)
{
    (void)op;
    struct machine *m = flow->machine;
    struct attention attention = flow_attention(flow);
    struct value context = new_output(flow, i, context_elements(flow));
    void *scratch = machine_take(m, m->kernel_api->flash_scratch_bytes(m->kernels, &attention));
    ISSUE(flow, flash_forward, flash_forward, .attention = attention, .qkv = flow->x.at,
          .context = context.at, .log_sums = flow_own_slot(flow, i), .scratch = scratch);
    machine_give_back(m, scratch);
    flow_replace(flow, &flow->x, context);
}

/* The probabilities are made in the slot of the softmax, from scores that lie in the same. */
static void run_scores(struct flow *flow, const struct op *op, int i)
{
    (void)op;
    ISSUE(flow, scores, scores, .attention = flow_attention(flow), .qkv = flow->x.at,
          .scores = flow_own_slot(flow, i + 1));
}

static void run_softmax(struct flow *flow, const struct op *op, int i)
{
    bool drops = flow->machine->model->dropout > 0;
    char *probabilities = flow_own_slot(flow, i);
    size_t bytes = machine_bytes(flow->machine, op->batch * op->m * op->n);
    ISSUE(flow, softmax, softmax, .attention = flow_attention(flow), .scores = probabilities,
          .probabilities = probabilities, .keeps = drops ? (uint8_t *)probabilities + bytes : NULL,
          .dropped = drops ? flow_own_slot(flow, i + 1) : NULL);
}

static void run_context(struct flow *flow, const struct op *op, int i)
{
    (void)op;
    bool drops = flow->machine->model->dropout > 0;
    struct value context = new_output(flow, i, context_elements(flow));
    ISSUE(flow, context, context, .attention = flow_attention(flow),
          .dropped = flow_own_slot(flow, drops ? i : i - 1), .qkv = flow->x.at,
          .context = context.at);
    flow_replace(flow, &flow->x, context);
}

static void run_activation(struct flow *flow, const struct op *op, int i)
{
    struct value y = new_output(flow, i, op->m * op->n);
    ISSUE(flow, activation, activation_args, .shape = flow_activation(flow, op), .x = flow->x.at,
          .y = y.at);
    flow_replace(flow, &flow->x, y);
}

/* The bias of the row-parallel product whose sum this is. */
static const void *row_parallel_bias(const struct flow *flow, int i)
{
    for (int j = i - 1; j >= 0; j--)
        if (list_of(flow)->at[j].kind == OP_GEMM)
            return part_value(flow->part, list_of(flow)->at[j].name, WEIGHT_BIAS);
    return NULL;
}

static struct residual_args residual_of(const struct flow *flow, const struct op *op, int i,
                                        void *y)
{
    bool drops = flow->machine->model->dropout > 0;
    return (struct residual_args){ .residual = flow_residual(flow, op, i),
                                   .x = flow->x.at,
                                   .bias = row_parallel_bias(flow, i),
                                   .h = flow->h.at,
                                   .keeps = drops ? flow_own_slot(flow, i) : NULL,
                                   .y = y };
}

/* The norm behind it, of the same kernel, keeps the stream. */
static void run_residual_norm(struct flow *flow, const struct op *op, int i)
{
    void *kept = flow_folded_slot(flow, i);
    struct value y = new_output(flow, i, op->m * op->n);
    ISSUE(flow, residual_norm, residual_norm, .residual = residual_of(flow, op, i, kept),
          .norm = norm_of(flow, op->folded, kept, y.at));
    flow_free(flow, &flow->h);
    flow->h = (struct value){ kept, false };
    flow_replace(flow, &flow->x, y);
}

static void run_residual(struct flow *flow, const struct op *op, int i)
{
    if (op->folded) {
        run_residual_norm(flow, op, i);
        return;
    }
    struct value y = new_output(flow, i, op->m * op->n);
    struct residual_args args = residual_of(flow, op, i, y.at);
    struct machine *m = flow->machine;
    m->kernel_api->residual(m->kernels, m->compute, &args);
    flow_free(flow, &flow->h);
    if (flow->part->kind == PART_EMBEDDING) {
        flow_replace(flow, &flow->x, y);
    } else {
        flow_free(flow, &flow->x);
        flow->h = y;
    }
}

/* One tensor rank adds the positions: the others' rows are summed to its own. */
static void run_embedding(struct flow *flow, const struct op *op, int i)
{
    struct machine *m = flow->machine;
    int64_t *ids = flow_own_slot(flow, i);
    m->device_api->copy(m->compute, ids, flow->microbatch->ids, sizeof *ids * (size_t)op->m);
    flow->x = new_output(flow, i, op->m * op->n);
    const void *positions = part_value(flow->part, op->name, WEIGHT_POSITIONS);
    ISSUE(flow, embedding, embedding_args, .embedding = flow_embedding(flow, op),
          .seq = (long)m->dims.seq, .ids = ids,
          .table = part_value(flow->part, op->name, WEIGHT_TABLE),
          .positions = m->tensor_rank == 0 ? positions : NULL, .y = flow->x.at);
}

/* --- the loss ----------------------------------------------------------------------------- */

/* All rows are at work, and their logits stay for the backward. */
static void keep_logits(struct flow *flow, const struct op *loss)
{
    struct record *record = flow->record;
    record->logits = flow->x.at;
    flow->rows = (struct rows){ 0, (long)loss->m };
    head_take_statistics(flow, loss);
    head_find_statistics(flow, loss, record->logits);
    flow->x = (struct value){ 0 };
}

static void run_cross_entropy(struct flow *flow, const struct op *op, int i)
{
    (void)i;
    if (!flow->record->logits)
        keep_logits(flow, op);
    head_add_losses(flow);
}

/* --- collectives -------------------------------------------------------------------------- */

static void run_all_reduce(struct flow *flow, const struct op *op, int i)
{
    if (strcmp(op->name, "loss_reduce") == 0) {
        keep_logits(flow, &list_of(flow)->at[i + 1]);
        return;
    }
    flow_collective(flow, op, COMM_ALL_REDUCE, flow->x.at, flow->x.at, op->m * op->n);
}

static void run_all_gather(struct flow *flow, const struct op *op, int i)
{
    (void)i;
    struct value whole = flow_new(flow, op->m * op->n);
    flow_collective(flow, op, COMM_ALL_GATHER, flow->x.at, whole.at,
                    op->m * op->n / flow->machine->plan->tp);
    flow_free_late(flow, &flow->x);
    flow->x = whole;
}

static void run_reduce_scatter(struct flow *flow, const struct op *op, int i)
{
    double part = op->m * op->n / flow->machine->plan->tp;
    struct value own = new_output(flow, i, part);
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
    [OP_ALL_REDUCE] = run_all_reduce,
    [OP_ALL_GATHER] = run_all_gather,
    [OP_REDUCE_SCATTER] = run_reduce_scatter,
};

static int run_op(struct flow *flow, const struct ops *list, int i)
{
    flow_run(flow, list, i, handlers);
    return i + 1;
}

void *machine_forward(struct machine *machine, const struct part *part,
                      const struct microbatch *microbatch, struct record *record, void *input)
{
    struct flow flow = { .machine = machine,
                         .part = part,
                         .microbatch = microbatch,
                         .record = record,
                         .h = { input, true } };
    const struct ops *list = list_of(&flow);
    for (int i = 0; i < list->count;)
        i = list->at[i].chunks > 1 ? head_forward_runs(&flow, list, i) : run_op(&flow, list, i);
    flow_finish(&flow);
    if (part->kind == PART_HEAD)
        flow_free(&flow, &flow.h);
    return part->kind == PART_EMBEDDING ? flow.x.at : flow.h.at;
}

static bool is_core(const struct op *op)
{
    return op->region == REGION_ATTENTION_CORE;
}

void machine_replay_core(struct machine *machine, const struct part *part,
                         const struct microbatch *microbatch, struct record *record)
{
    struct flow flow = {
        .machine = machine, .part = part, .microbatch = microbatch, .record = record
    };
    const struct ops *list = list_of(&flow);
    for (int i = 0; i < list->count; i++) {
        if (!is_core(&list->at[i]))
            continue;
        if (!flow.x.at)
            flow.x = (struct value){ flow_input_slot(&flow, i), false };
        handlers[list->at[i].kind](&flow, &list->at[i], i);
    }
    flow_free(&flow, &flow.x);
}
