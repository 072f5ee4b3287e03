/* The loss, and the head's logits in row blocks. A row block is a part of a microbatch's rows for
 * which the logits are computed at once. */
#include "exec/ops/head.h"

#include <assert.h>

/* --- the loss of some rows ---------------------------------------------------------------- */

/* The loss over this rank's part of the vocabulary. The width is taken from the logits, because an
 * op that reduces rows states none. */
static struct cross_entropy loss_of(const struct flow *flow, const struct op *op, int logits)
{
    double columns = flow_elements(flow, logits) / op->m;
    return flow_loss(flow, flow->rows.count, columns);
}

static float *maxima_of(const struct flow *flow, int value)
{
    return (float *)flow_at(flow, value) + flow->rows.first;
}

static float *sums_of(const struct flow *flow, int value)
{
    return (float *)flow_at(flow, value) + 2 * flow->rows.first;
}

static const int64_t *targets_of(const struct flow *flow)
{
    return flow->microbatch->targets + flow->rows.first;
}

/* The second reduction needs the result of the first, so both run on one stream. */
void head_reduce_rows(struct flow *flow, const struct op *reduce)
{
    bool is_shared = flow->machine->plan->tp > 1;
    double rows = (double)flow->rows.count;
    const void *logits = flow_in(flow, reduce, 0);
    struct cross_entropy loss = loss_of(flow, reduce, reduce->in.at[0]);
    float *maxima = (float *)flow_out(flow, reduce, 0) + flow->rows.first;
    float *sums = (float *)flow_out(flow, reduce, 1) + 2 * flow->rows.first;
    ISSUE(flow, loss_maxima, loss_maxima, .loss = loss, .logits = logits, .maxima = maxima);
    if (is_shared)
        flow_all_reduce_fp32(flow, REDUCTION_MAX, maxima, rows);
    ISSUE(flow, loss_sums, loss_sums, .loss = loss, .logits = logits, .targets = targets_of(flow),
          .maxima = maxima, .sums = sums);
    if (is_shared)
        flow_all_reduce_fp32(flow, REDUCTION_SUM, sums, 2 * rows);
}

void head_find_loss(struct flow *flow, const struct op *loss)
{
    bool reduces = loss->out.count > 0;
    if (reduces)
        head_reduce_rows(flow, loss);
    int sums = reduces ? loss->out.at[1] : loss->in.at[2];
    ISSUE(flow, loss_total, loss_total, .rows = flow->rows.count, .targets = targets_of(flow),
          .sums = sums_of(flow, sums), .total = flow->machine->loss);
}

void head_find_gradient(struct flow *flow, const struct op *loss, void *logits, int first)
{
    ISSUE(flow, loss_gradient, loss_gradient, .loss = loss_of(flow, loss, loss->out.at[0]),
          .logits = logits, .targets = targets_of(flow),
          .maxima = maxima_of(flow, loss->in.at[first]),
          .sums = sums_of(flow, loss->in.at[first + 1]),
          .scale = flow->machine->loss_gradient_scale, .dlogits = logits);
}

/* --- row blocks ---------------------------------------------------------------------------------
 */

/* Ops from `first` to `end` - 1 run over all rows, block by block. */
struct block_ops {
    struct flow *flow;
    int first, end;
};

/* Address of the block's first row; a row has `width` values. */
static void *rows_of(const struct flow *flow, const void *values, double width)
{
    return (char *)values + machine_bytes(flow->machine, (double)flow->rows.first * width);
}

static bool is_made_in(const struct block_ops *ops, int value)
{
    int maker = ops_maker(ops->flow->list, value);
    return maker >= ops->first && maker < ops->end;
}

/* Frees operands after their last reader: logits after each block, whole values after the last
 * block. */
static void free_read(const struct block_ops *ops, int i, bool is_last_block)
{
    struct flow *flow = ops->flow;
    const struct op *op = &flow->list->at[i];
    if (is_last_block)
        flow_free_read(flow, i);
    for (int j = 0; j < op->in.count; j++)
        if (is_made_in(ops, op->in.at[j]) && flow_is_read_last(flow, i, op->in.at[j]))
            flow_free(flow, op->in.at[j]);
}

/* The sizes of two blocks differ by at most one row. */
static int each_block(struct flow *flow, int i, flow_op *const handlers[NUM_OP_KINDS])
{
    const struct ops *list = flow->list;
    long blocks = (long)list->at[i].row_blocks, rows = (long)flow->machine->dims.tokens;
    struct block_ops ops = { flow, i, i };
    while (ops.end < list->count && list->at[ops.end].row_blocks > 1)
        ops.end++;
    for (long block = 0; block < blocks; block++) {
        long first = rows * block / blocks;
        flow->rows = (struct rows){ first, rows * (block + 1) / blocks - first };
        for (int j = i; j < ops.end; j++) {
            flow_run(flow, j, handlers);
            free_read(&ops, j, block + 1 == blocks);
        }
    }
    return ops.end;
}

static void make_logits(struct flow *flow, const struct op *op)
{
    struct machine *m = flow->machine;
    void **logits = &flow->record->values[op->out.at[0]];
    *logits = machine_take(m, machine_bytes(m, (double)flow->rows.count * op->n));
    ISSUE(flow, linear_forward, linear_forward, .rows = flow->rows.count, .out = (long)op->n,
          .in = (long)op->k, .x = rows_of(flow, flow_in(flow, op, 0), op->k),
          .weight = piece_value(flow->piece, op, WEIGHT_MATRIX), .y = *logits);
}

static flow_op *const forward_handlers[NUM_OP_KINDS] = {
    [OP_GEMM] = make_logits,
    [OP_ALL_REDUCE] = head_reduce_rows,
    [OP_CROSS_ENTROPY] = head_find_loss,
};

int head_forward_blocks(struct flow *flow, int i)
{
    return each_block(flow, i, forward_handlers);
}

/* --- backward ----------------------------------------------------------------------------- */

/* Writes the block's rows of the gradient of the logits' input. */
static void find_input_gradient(struct flow *flow, const struct op *op)
{
    ISSUE(flow, linear_input_gradient, linear_input_gradient, .rows = flow->rows.count,
          .out = (long)op->k, .in = (long)op->n, .dy = flow_in(flow, op, 0),
          .weight = piece_value(flow->piece, op, WEIGHT_MATRIX),
          .dx = rows_of(flow, flow_out(flow, op, 0), op->n));
}

static void add_weight_gradient(struct flow *flow, const struct op *op)
{
    ISSUE(flow, linear_weight_gradient, linear_weight_gradient, .rows = flow->rows.count,
          .out = (long)op->m, .in = (long)op->n, .dy = flow_in(flow, op, 0),
          .x = rows_of(flow, flow_in(flow, op, 1), op->n),
          .dweight = piece_gradient(flow->piece, op, WEIGHT_MATRIX));
}

static void run_product(struct flow *flow, const struct op *op)
{
    if (op->pass == PASS_FORWARD)
        make_logits(flow, op);
    else if (op->pass == PASS_BACKWARD_INPUT)
        find_input_gradient(flow, op);
    else
        add_weight_gradient(flow, op);
}

/* The op reads the maxima and sums that its forward kept, and the recomputed logits. */
static void run_loss_gradient(struct flow *flow, const struct op *op)
{
    int logits = op->in.count - 1;
    head_find_gradient(flow, op, flow_in_place(flow, op, logits), 0);
}

static flow_op *const backward_handlers[NUM_OP_KINDS] = {
    [OP_GEMM] = run_product,
    [OP_CROSS_ENTROPY] = run_loss_gradient,
};

int head_backward_blocks(struct flow *flow, int i)
{
    assert(!flow->leaves_out && "a split backward makes all logits at once");
    return each_block(flow, i, backward_handlers);
}
