#include "exec/head.h"

#include <assert.h>

/* --- the loss of some rows ---------------------------------------------------------------- */

void head_take_statistics(struct flow *flow, const struct op *loss)
{
    struct record *record = flow->record;
    record->maxima = machine_take(flow->machine, sizeof(float) * (size_t)loss->m);
    record->sums = machine_take(flow->machine, sizeof(float) * 2 * (size_t)loss->m);
}

void head_give_back_statistics(struct flow *flow)
{
    struct record *record = flow->record;
    machine_give_back(flow->machine, record->maxima);
    machine_give_back(flow->machine, record->sums);
    record->maxima = record->sums = NULL;
}

static struct cross_entropy loss_of(const struct flow *flow, const struct op *loss)
{
    struct cross_entropy of = flow_loss(flow, loss);
    of.rows = flow->rows.count;
    return of;
}

static float *maxima_of(const struct flow *flow)
{
    return flow->record->maxima + flow->rows.first;
}

static float *sums_of(const struct flow *flow)
{
    return flow->record->sums + 2 * flow->rows.first;
}

static const int64_t *targets_of(const struct flow *flow)
{
    return flow->microbatch->targets + flow->rows.first;
}

/* Between the two reductions are sums of what the first one gave: all on one stream. */
void head_find_statistics(struct flow *flow, const struct op *loss, const void *logits)
{
    bool is_shared = flow->machine->plan->tp > 1;
    double rows = (double)flow->rows.count;
    ISSUE(flow, loss_maxima, loss_maxima, .loss = loss_of(flow, loss), .logits = logits,
          .maxima = maxima_of(flow));
    if (is_shared)
        flow_all_reduce_fp32(flow, REDUCTION_MAX, maxima_of(flow), rows);
    ISSUE(flow, loss_sums, loss_sums, .loss = loss_of(flow, loss), .logits = logits,
          .targets = targets_of(flow), .maxima = maxima_of(flow), .sums = sums_of(flow));
    if (is_shared)
        flow_all_reduce_fp32(flow, REDUCTION_SUM, sums_of(flow), 2 * rows);
}

void head_add_losses(struct flow *flow)
{
    ISSUE(flow, loss_total, loss_total, .rows = flow->rows.count, .targets = targets_of(flow),
          .sums = sums_of(flow), .total = flow->machine->loss);
}

void head_find_gradient(struct flow *flow, const struct op *loss, void *logits)
{
    ISSUE(flow, loss_gradient, loss_gradient, .loss = loss_of(flow, loss), .logits = logits,
          .targets = targets_of(flow), .maxima = maxima_of(flow), .sums = sums_of(flow),
          .scale = flow->machine->loss_gradient_scale, .dlogits = logits);
}

/* --- runs --------------------------------------------------------------------------------- */

/* Of rows of `width` values, those of the run. */
static void *rows_of(const struct flow *flow, const void *values, double width)
{
    return (char *)values + machine_bytes(flow->machine, (double)flow->rows.first * width);
}

static void make_logits(struct flow *flow, const struct op *logits, const void *input)
{
    flow->logits = flow_new(flow, (double)flow->rows.count * logits->n);
    ISSUE(flow, linear_forward, linear_forward, .rows = flow->rows.count, .out = (long)logits->n,
          .in = (long)logits->k, .x = rows_of(flow, input, logits->k),
          .weight = part_value(flow->part, logits->name, WEIGHT_MATRIX), .y = flow->logits.at);
}

/* Runs are of one length or one row less. */
static int each_run(struct flow *flow, const struct ops *list, int i,
                    flow_op *const handlers[NUM_OP_KINDS])
{
    long chunks = (long)list->at[i].chunks, rows = (long)flow->machine->dims.tokens;
    int end = i;
    while (end < list->count && list->at[end].chunks > 1)
        end++;
    for (long chunk = 0; chunk < chunks; chunk++) {
        long first = rows * chunk / chunks;
        flow->rows = (struct rows){ first, rows * (chunk + 1) / chunks - first };
        for (int j = i; j < end; j++)
            flow_run(flow, list, j, handlers);
    }
    return end;
}

/* --- forward ------------------------------------------------------------------------------ */

static void run_logits(struct flow *flow, const struct op *op, int i)
{
    (void)i;
    make_logits(flow, op, flow->x.at);
}

static void run_reduce(struct flow *flow, const struct op *op, int i)
{
    (void)op;
    head_find_statistics(flow, &flow->part->ops->forward.at[i + 1], flow->logits.at);
}

static void run_loss(struct flow *flow, const struct op *op, int i)
{
    (void)i;
    if (flow->machine->plan->tp == 1)
        head_find_statistics(flow, op, flow->logits.at);
    head_add_losses(flow);
    flow_free(flow, &flow->logits);
}

static flow_op *const forward_handlers[NUM_OP_KINDS] = {
    [OP_GEMM] = run_logits,
    [OP_ALL_REDUCE] = run_reduce,
    [OP_CROSS_ENTROPY] = run_loss,
};

static const struct op *loss_op(const struct flow *flow)
{
    const struct ops *forward = &flow->part->ops->forward;
    return &forward->at[forward->count - 1];
}

int head_forward_runs(struct flow *flow, const struct ops *list, int i)
{
    head_take_statistics(flow, loss_op(flow));
    int end = each_run(flow, list, i, forward_handlers);
    flow_free(flow, &flow->x);
    return end;
}

/* --- backward ----------------------------------------------------------------------------- */

/* What the product read: gathered again, or as it was kept. */
static const void *kept_input(const struct flow *flow, int i)
{
    return flow->gathered.at ? flow->gathered.at : flow_own_slot(flow, flow->part->source[i]);
}

/* Into its rows of the whole gradient. */
static void find_input_gradient(struct flow *flow, const struct op *op)
{
    ISSUE(flow, linear_input_gradient, linear_input_gradient, .rows = flow->rows.count,
          .out = (long)op->k, .in = (long)op->n, .dy = flow->logits.at,
          .weight = part_value(flow->part, op->name, WEIGHT_MATRIX),
          .dx = rows_of(flow, flow->x.at, op->n));
}

static void add_weight_gradient(struct flow *flow, const struct op *op, int i)
{
    ISSUE(flow, linear_weight_gradient, linear_weight_gradient, .rows = flow->rows.count,
          .out = (long)op->m, .in = (long)op->n, .dy = flow->logits.at,
          .x = rows_of(flow, kept_input(flow, i), op->n),
          .dweight = part_gradient(flow->part, op->name, WEIGHT_MATRIX));
    flow_free(flow, &flow->logits);
}

static void run_product(struct flow *flow, const struct op *op, int i)
{
    if (op->pass == PASS_FORWARD)
        make_logits(flow, op, kept_input(flow, i));
    else if (op->pass == PASS_BACKWARD_INPUT)
        find_input_gradient(flow, op);
    else
        add_weight_gradient(flow, op, i);
}

static void run_loss_gradient(struct flow *flow, const struct op *op, int i)
{
    (void)op, (void)i;
    head_find_gradient(flow, loss_op(flow), flow->logits.at);
}

static flow_op *const backward_handlers[NUM_OP_KINDS] = {
    [OP_GEMM] = run_product,
    [OP_CROSS_ENTROPY] = run_loss_gradient,
};

int head_backward_runs(struct flow *flow, const struct ops *list, int i)
{
    const struct layer_dims *dims = &flow->machine->dims;
    assert(!flow->leaves_out && "a split backward makes all logits at once");
    flow->x = flow_new(flow, dims->tokens * dims->hidden);
    int end = each_run(flow, list, i, backward_handlers);
    flow_free(flow, &flow->gathered);
    head_give_back_statistics(flow);
    return end;
}
