#include "exec/flow.h"

#include <stdlib.h>
#include <string.h>

/* --- memory ------------------------------------------------------------------------------- */

struct value flow_new(struct flow *flow, double elements)
{
    return (struct value){ machine_take(flow->machine, machine_bytes(flow->machine, elements)),
                           true };
}

void flow_free(struct flow *flow, struct value *value)
{
    if (value->is_owned)
        machine_give_back(flow->machine, value->at);
    *value = (struct value){ 0 };
}

void flow_free_late(struct flow *flow, struct value *value)
{
    struct machine *m = flow->machine;
    if (value->is_owned && value->at)
        m->late[m->num_late++] = value->at;
    *value = (struct value){ 0 };
}

static void free_late(struct machine *m)
{
    for (int i = 0; i < m->num_late; i++)
        machine_give_back(m, m->late[i]);
    m->num_late = 0;
}

void flow_replace(struct flow *flow, struct value *old, struct value by)
{
    flow_free(flow, old);
    *old = by;
}

void *flow_own_slot(const struct flow *flow, int forward)
{
    return saved_at(&flow->record->saved, flow->part->saved.own[forward]);
}

void *flow_folded_slot(const struct flow *flow, int forward)
{
    return saved_at(&flow->record->saved, flow->part->saved.folded[forward]);
}

void *flow_input_slot(const struct flow *flow, int forward)
{
    return saved_at(&flow->record->saved, flow->part->saved.input[forward]);
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

/* What compute waits for before the op at `i`: NULL when that is on its own stream. */
static struct event *transfer_before(const struct flow *flow, const struct ops *list, int i)
{
    const struct op *op = &list->at[i];
    if (is_on_tensor_stream(op))
        return NULL;
    if (flow->leaves_out)
        return flow->last_transfer;
    bool waits = op->after >= 0 && is_on_tensor_stream(&list->at[op->after]);
    return waits ? flow->machine->transferred[op->after] : NULL;
}

/* Makes compute wait for the op's `after` on the tensor stream. */
static void begin(struct flow *flow, const struct ops *list, int i)
{
    struct machine *m = flow->machine;
    struct event *transfer = transfer_before(flow, list, i);
    if (transfer)
        m->device_api->wait(m->compute, transfer);
    if (transfer && transfer == flow->last_transfer) {
        free_late(m);
        flow->last_transfer = NULL;
    }
    op_log_begin(m->log, m->device_api, flow_stream(flow, &list->at[i]), &list->at[i]);
}

/* Marks the end of an op on the tensor stream. */
static void end(struct flow *flow, const struct ops *list, int i)
{
    struct machine *m = flow->machine;
    op_log_end(m->log, m->device_api, flow_stream(flow, &list->at[i]));
    if (!is_on_tensor_stream(&list->at[i]))
        return;
    m->device_api->record(m->tensor_stream, m->transferred[i]);
    flow->last_transfer = m->transferred[i];
}

void flow_run(struct flow *flow, const struct ops *list, int i,
              flow_op *const handlers[NUM_OP_KINDS])
{
    begin(flow, list, i);
    handlers[list->at[i].kind](flow, &list->at[i], i);
    end(flow, list, i);
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
    if (is_on_tensor_stream(op)) { /* behind what it reads, and memory that was just taken */
        machine_follow(m, m->tensor_stream);
        op_log_begin(m->log, m->device_api, m->tensor_stream, op); /* anew: it waited till here */
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

/* An odd number of 16-bit values leaves half a word, which the slot's own padding has room for. */
float *flow_statistics(const struct flow *flow, void *values, double count)
{
    size_t words = (machine_bytes(flow->machine, count) + sizeof(float) - 1) / sizeof(float);
    return (float *)values + words;
}

/* --- shapes ------------------------------------------------------------------------------- */

/* The attention core is one op, whether it runs as one or as scores, softmax and context. */
static bool begins_core(enum op_kind kind)
{
    return kind == OP_SCORES || kind == OP_SOFTMAX;
}

/* What an op of a layer draws: ops are numbered by their place in the list without collectives,
 * with each op by itself and the attention core as one, so that every layout, every stack and both
 * ways of attention draw the same. */
static struct draw draw_of(const struct flow *flow, int i)
{
    const struct machine *m = flow->machine;
    const struct ops *list = &flow->part->ops->forward;
    uint16_t number = 0;
    for (int j = 0; j < i; j++)
        if (!op_is_collective(list->at[j].kind) && !begins_core(list->at[j].kind))
            number = (uint16_t)(number + 1 + (list->at[j].folded != NULL));
    return (struct draw){ .seed = m->seed,
                          .layer = (uint16_t)(flow->part->layer + 1),
                          .op = number,
                          .place = flow->microbatch->place };
}

struct attention flow_attention(const struct flow *flow)
{
    const struct machine *m = flow->machine;
    const struct layer_dims *d = &m->dims;
    const int first = 0; /* a norm, which draws nothing: its number is that of both ways */
    return (struct attention){
        .sequences = (long)d->batch,
        .seq = (long)d->seq,
        .heads = (long)d->heads,
        .kv_heads = (long)d->kv_heads,
        .head_dim = (long)d->head_dim,
        .dropout = { .dropout = m->model->dropout,
                     .draw = draw_of(flow, first),
                     .first_head = (long)d->heads * m->tensor_rank,
                     .model_heads = m->model->heads },
    };
}

double flow_qkv_elements(const struct attention *attention)
{
    return (double)attention_tokens(attention) * (double)attention_qkv_width(attention);
}

struct activation_shape flow_activation(const struct flow *flow, const struct op *op)
{
    return (struct activation_shape){ (enum activation_kind)flow->machine->model->activation,
                                      (long)op->m, (long)op->n };
}

struct norm flow_norm(const struct flow *flow, const struct op *op)
{
    return (struct norm){ (long)op->m, (long)op->n, flow->machine->norm_epsilon };
}

struct residual flow_residual(const struct flow *flow, const struct op *op, int i)
{
    const struct machine *m = flow->machine;
    uint64_t rows = (uint64_t)op->m;
    return (struct residual){ .rows = (long)op->m,
                              .width = (long)op->n,
                              .dropout = m->model->dropout,
                              .draw = draw_of(flow, i),
                              .first_row = m->plan->sp ? rows * (uint64_t)m->tensor_rank : 0,
                              .seq = (long)m->dims.seq };
}

struct embedding flow_embedding(const struct flow *flow, const struct op *op)
{
    return (struct embedding){ (long)op->m, (long)op->n,
                               (int64_t)op->k * flow->machine->tensor_rank, (int64_t)op->k };
}

struct cross_entropy flow_loss(const struct flow *flow, const struct op *op)
{
    return (struct cross_entropy){ (long)op->m, (long)op->n,
                                   (int64_t)op->n * flow->machine->tensor_rank,
                                   flow->machine->model->vocab };
}

bool flow_is_head_norm(const struct op *op)
{
    return op->kind == OP_NORM && strcmp(op->name, "qk_norm") == 0;
}
