/* The values of an op list (sequence of operations) while it runs. A value that is kept for the
 * backward has a slot in the record of its microbatch; other values have memory of their own. */
#include "exec/ops/flow.h"

/* --- values ------------------------------------------------------------------------------- */

static void *slot_of(const struct flow *flow, int value)
{
    const struct piece *piece = flow->piece;
    return saved_at(&flow->record->saved, piece->saved.slots[piece->lifetimes->place[value]]);
}

void *flow_at(const struct flow *flow, int value)
{
    void *own = flow->record->values[value];
    return own ? own : slot_of(flow, value);
}

void *flow_in(const struct flow *flow, const struct op *op, int i)
{
    return flow_at(flow, op->in.at[i]);
}

void *flow_out(struct flow *flow, const struct op *op, int i)
{
    int value = op->out.at[i];
    void **own = &flow->record->values[value];
    void *slot = slot_of(flow, value);
    if (slot)
        return slot;
    if (!*own)
        *own = machine_take(flow->machine, (size_t)flow->list->operands->values[value].bytes);
    return *own;
}

void *flow_in_place(struct flow *flow, const struct op *op, int i)
{
    void **values = flow->record->values;
    void *at = flow_in(flow, op, i);
    values[op->out.at[0]] = values[op->in.at[i]];
    values[op->in.at[i]] = NULL;
    return at;
}

void *flow_add_in_place(struct flow *flow, const struct op *op)
{
    void **values = flow->record->values;
    values[op->out.at[0]] = values[op->sum[0]];
    values[op->sum[0]] = NULL;
    return values[op->out.at[0]];
}

double flow_elements(const struct flow *flow, int value)
{
    return flow->list->operands->values[value].bytes / (double)machine_bytes(flow->machine, 1);
}

enum value_form flow_form(const struct flow *flow, int value)
{
    return flow->list->operands->values[value].form;
}

void *flow_from(const struct flow *flow, const void *values, double first)
{
    return values ? (char *)values + machine_bytes(flow->machine, first) : NULL;
}

void *flow_take(struct flow *flow, int value)
{
    if (value == NO_ID)
        return NULL;
    void *at = flow->record->values[value];
    flow->record->values[value] = NULL;
    return at;
}

void flow_free(struct flow *flow, int value)
{
    machine_give_back(flow->machine, flow->record->values[value]);
    flow->record->values[value] = NULL;
}

/* Frees a value later, as the tensor stream may still read it. */
static void free_later(struct flow *flow, int value)
{
    struct machine *m = flow->machine;
    if (flow->record->values[value])
        m->late[m->num_late++] = flow->record->values[value];
    flow->record->values[value] = NULL;
}

static void free_late(struct machine *m)
{
    for (int i = 0; i < m->num_late; i++)
        machine_give_back(m, m->late[i]);
    m->num_late = 0;
}

/* --- order -------------------------------------------------------------------------------- */

static bool is_on_tensor_stream(const struct op *op)
{
    return op->stream == STREAM_TENSOR;
}

struct stream *flow_stream(const struct flow *flow, const struct op *op)
{
    return is_on_tensor_stream(op) ? flow->machine->tensor_stream : flow->machine->compute;
}

/* The event for which compute waits before the op at `i`. NULL if the op runs on the tensor stream,
 * or if the op for which it waits ran on compute. */
static struct event *transfer_before(const struct flow *flow, int i)
{
    const struct ops *list = flow->list;
    const struct op *op = &list->at[i];
    if (is_on_tensor_stream(op))
        return NULL;
    if (flow->leaves_out)
        return flow->last_transfer;
    bool waits = op->after >= 0 && is_on_tensor_stream(&list->at[op->after]);
    return waits ? flow->machine->transferred[op->after] : NULL;
}

/* Makes compute wait for the op that must have run before this one (`after`), if that op runs on
 * the tensor stream. */
static void begin(struct flow *flow, int i)
{
    struct machine *m = flow->machine;
    const struct op *op = &flow->list->at[i];
    struct event *transfer = transfer_before(flow, i);
    if (transfer)
        m->device_api->wait(m->compute, transfer);
    if (transfer && transfer == flow->last_transfer) {
        free_late(m);
        flow->last_transfer = NULL;
    }
    op_log_begin(m->log, m->device_api, flow_stream(flow, op), op);
}

/* Marks the end of an op on the tensor stream. */
static void end(struct flow *flow, int i)
{
    struct machine *m = flow->machine;
    const struct op *op = &flow->list->at[i];
    op_log_end(m->log, m->device_api, flow_stream(flow, op));
    if (!is_on_tensor_stream(op))
        return;
    m->device_api->record(m->tensor_stream, m->transferred[i]);
    flow->last_transfer = m->transferred[i];
}

static void keep_copy(struct flow *flow, int value)
{
    struct machine *m = flow->machine;
    void *own = flow->record->values[value], *slot = slot_of(flow, value);
    if (own && slot)
        m->device_api->copy(m->compute, slot, own,
                            (size_t)flow->list->operands->values[value].bytes);
}

/* Copies values that other pieces (layers, embedding) made, and that this op keeps, into their
 * slots. */
static void keep_inputs(struct flow *flow, const struct op *op)
{
    const struct ops *list = flow->list;
    for (int i = 0; i < op->saved.count && op->pass == PASS_FORWARD; i++)
        if (op->saved.at[i] == list->input || ids_have(&list->aside, op->saved.at[i]))
            keep_copy(flow, op->saved.at[i]);
}

/* Adds a gradient to the sum of gradients from the value's other readers, in place. */
static void join(struct flow *flow, int made, int sum)
{
    void **values = flow->record->values;
    ISSUE(flow, sum_into, sum_into, .n = (long)flow_elements(flow, made), .x = values[made],
          .sum = values[sum]);
    flow_free(flow, made);
    values[made] = values[sum];
    values[sum] = NULL;
}

static void join_sums(struct flow *flow, const struct op *op)
{
    for (int i = op->adds_sum; i < MAX_SUMS; i++)
        if (op->sum[i] != NO_ID)
            join(flow, op->out.at[i], op->sum[i]);
}

void flow_run(struct flow *flow, int i, flow_op *const handlers[NUM_OP_KINDS])
{
    const struct op *op = &flow->list->at[i];
    begin(flow, i);
    keep_inputs(flow, op);
    handlers[op->kind](flow, op);
    join_sums(flow, op);
    end(flow, i);
}

bool flow_is_read_last(const struct flow *flow, int i, int value)
{
    const struct op *op = &flow->list->at[i];
    bool is_kept = op->pass == PASS_FORWARD && flow->piece->lifetimes->is_kept[value] &&
                   flow->list->operands->values[value].is_live;
    return flow->last->of[value] == i && !is_kept;
}

void flow_free_read(struct flow *flow, int i)
{
    const struct op *op = &flow->list->at[i];
    for (int j = 0; j < op->in.count; j++) {
        int value = op->in.at[j];
        if (!flow_is_read_last(flow, i, value))
            continue;
        if (is_on_tensor_stream(op))
            free_later(flow, value);
        else
            flow_free(flow, value);
    }
}

void flow_finish(struct flow *flow)
{
    struct machine *m = flow->machine;
    if (flow->last_transfer)
        m->device_api->wait(m->compute, flow->last_transfer);
    free_late(m);
}

/* --- calls -------------------------------------------------------------------------------- */

void flow_collective(struct flow *flow, const struct op *op, enum comm_kind kind, const void *in,
                     void *out, double count)
{
    struct machine *m = flow->machine;
    /* the op runs after its inputs are made, and after earlier uses of the memory of its output */
    if (is_on_tensor_stream(op)) {
        machine_follow(m, m->tensor_stream);
        op_log_begin(m->log, m->device_api, m->tensor_stream,
                     op); /* the op's logged time begins after the wait */
    }
    struct comm_call call = { .kind = kind,
                              .group = m->tensor,
                              .stream = flow_stream(flow, op),
                              .in = in,
                              .out = out,
                              .count = (size_t)count,
                              .element = machine_element(m),
                              .reduction = REDUCTION_SUM };
    m->comm_api->issue(&call);
}

void flow_all_gather(struct flow *flow, const struct op *op)
{
    flow_collective(flow, op, COMM_ALL_GATHER, flow_in(flow, op, 0), flow_out(flow, op, 0),
                    op->m * op->n / flow->machine->plan->tp);
}

void flow_reduce_scatter(struct flow *flow, const struct op *op)
{
    flow_collective(flow, op, COMM_REDUCE_SCATTER, flow_in(flow, op, 0), flow_out(flow, op, 0),
                    op->m * op->n / flow->machine->plan->tp);
}

void flow_all_reduce_fp32(struct flow *flow, enum reduction reduction, float *at, double count)
{
    struct machine *m = flow->machine;
    struct comm_call call = { .kind = COMM_ALL_REDUCE,
                              .group = m->tensor,
                              .stream = m->compute,
                              .in = at,
                              .out = at,
                              .count = (size_t)count,
                              .element = ELEMENT_FP32,
                              .reduction = reduction };
    m->comm_api->issue(&call);
}

/* --- shapes ------------------------------------------------------------------------------- */

static struct draw draw_of(const struct flow *flow, uint16_t number)
{
    return (struct draw){ .seed = flow->machine->seed,
                          .layer = (uint16_t)(flow->piece->layer + 1),
                          .op = number,
                          .place = flow->microbatch->place };
}

struct attention flow_attention(const struct flow *flow)
{
    const struct machine *m = flow->machine;
    const struct layer_dims *d = &flow->piece->dims;
    return (struct attention){
        .sequences = (long)d->batch,
        .seq = (long)d->seq,
        .heads = (long)d->heads,
        .kv_heads = (long)d->kv_heads,
        .head_dim = (long)d->head_dim,
        .dropout = { .dropout = m->model->dropout,
                     .draw = draw_of(flow, 0),
                     .first_head = (long)d->heads * m->tensor_rank,
                     .model_heads = flow->piece->model_heads },
    };
}

/* The shape for an op with one product per head and sequence. `key_values` is the value that holds
 * keys and values; its size gives the number of their heads. */
struct cross_attention flow_cross_attention(const struct flow *flow, const struct op *op,
                                            int key_values)
{
    long sequences = (long)flow->machine->dims.batch;
    double of_head = 2 * (double)sequences * op->n * op->k;
    return (struct cross_attention){ .sequences = sequences,
                                     .queries = (long)op->m,
                                     .keys = (long)op->n,
                                     .heads = (long)op->batch / sequences,
                                     .kv_heads = (long)(flow_elements(flow, key_values) / of_head),
                                     .head_dim = (long)op->k };
}

struct activation_shape flow_activation(const struct op *op)
{
    return (struct activation_shape){ (enum activation_kind)op->which, (long)op->m, (long)op->n };
}

struct norm flow_norm(const struct flow *flow, const struct op *op)
{
    return (struct norm){ (long)op->m, (long)op->n, flow->machine->norm_epsilon };
}

struct residual flow_residual(const struct flow *flow, const struct op *op)
{
    const struct machine *m = flow->machine;
    uint64_t rows = (uint64_t)op->m;
    return (struct residual){ .rows = (long)op->m,
                              .width = (long)op->n,
                              .dropout = m->model->dropout,
                              .draw = draw_of(flow, (uint16_t)op->draw),
                              .first_row = m->plan->sp ? rows * (uint64_t)m->tensor_rank : 0,
                              .seq = (long)m->dims.seq };
}

struct route flow_route(const struct op *op)
{
    return (struct route){ (long)op->m, (long)op->n, (long)op->k, (long)op->batch };
}

struct passage flow_passage(const struct flow *flow, const struct op *op, int placed)
{
    return (struct passage){ .rows = (long)op->m,
                             .width = (long)op->n,
                             .chosen = (long)op->k,
                             .num_places = (long)(flow_elements(flow, placed) / op->n) };
}

struct embedding flow_embedding(const struct flow *flow, const struct op *op)
{
    return (struct embedding){ (long)op->m, (long)op->n,
                               (int64_t)op->k * flow->machine->tensor_rank, (int64_t)op->k };
}

struct cross_entropy flow_loss(const struct flow *flow, long rows, double columns)
{
    return (struct cross_entropy){ rows, (long)columns,
                                   (int64_t)columns * flow->machine->tensor_rank,
                                   flow->machine->model->vocab };
}

bool flow_is_head_norm(const struct flow *flow, const struct op *op)
{
    return op->kind == OP_NORM && op_is_in_place(flow->list, op);
}
