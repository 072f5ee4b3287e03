/* exec/flow.h - a piece on its way through its list: what forward.c, backward.c and head.c share.
 * Only they and flow.c include it. */
#ifndef EXEC_FLOW_H
#define EXEC_FLOW_H

#include "exec/machine.h"
#include "exec/piece.h"

/* Of a microbatch's. */
struct rows {
    long first, count;
};

struct flow {
    struct machine *machine;
    const struct piece *piece;
    const struct ops *list; /* the piece's forward or its backward */
    const struct last_reader *last;
    const struct microbatch *microbatch;
    struct record *record; /* whose values are what flows */
    struct rows rows;      /* of the head, that are at work */
    bool leaves_out;       /* some ops of the list, so that `after` may name one that did not run */
    struct event *last_transfer; /* of the tensor stream that compute has not waited for */
};

/* Makes what an op of the list makes. */
typedef void flow_op(struct flow *flow, const struct op *op);

/* Where a value is: in memory of its own, else in its slot. NULL: nobody has made it. */
void *flow_at(const struct flow *flow, int value);
/* The `i`-th value that an op reads. */
void *flow_in(const struct flow *flow, const struct op *op, int i);
/* Where the `i`-th that it makes goes: the slot that keeps it, else device memory for work that is
 * issued from now on, as machine_take; what is there already stays. */
void *flow_out(struct flow *flow, const struct op *op, int i);
/* The first that it makes is its `i`-th operand's memory, which it has changed. */
void *flow_in_place(struct flow *flow, const struct op *op, int i);
/* ... the memory of what it is added to. */
void *flow_add_in_place(struct flow *flow, const struct op *op);
double flow_elements(const struct flow *flow, int value);
enum value_form flow_form(const struct flow *flow, int value);
/* Of an array of values, from element `first` on; NULL: none. */
void *flow_from(const struct flow *flow, const void *values, double first);
/* Hands a value's own memory to the caller; NULL for NO_ID. */
void *flow_take(struct flow *flow, int value);
/* Frees a value's memory, if it is its own. */
void flow_free(struct flow *flow, int value);
/* Whether nobody reads a value behind the op at `i`; frees those of its operands. */
bool flow_is_read_last(const struct flow *flow, int i, int value);
void flow_free_read(struct flow *flow, int i);

/* Runs the op at `i` of the list by the handler of its kind, and adds what it made to the gradient
 * that it says. Compute first waits for the op's `after` on the tensor stream. What runs on the
 * tensor stream waits for all that compute has been given: its `after` is the last of that. */
void flow_run(struct flow *flow, int i, flow_op *const handlers[NUM_OP_KINDS]);
/* What compute issues from now on runs after the whole list. */
void flow_finish(struct flow *flow);
/* The stream that an op of the list runs on. */
struct stream *flow_stream(const struct flow *flow, const struct op *op);

/* A collective of values over the tensor ranks: `count` of each rank, in comm.h's sense. */
void flow_collective(struct flow *flow, const struct op *op, enum comm_kind kind, const void *in,
                     void *out, double count);
/* The same of fp32 on the compute stream. */
void flow_all_reduce_fp32(struct flow *flow, enum reduction reduction, float *at, double count);
/* From the value that an op reads to the one that it makes, m x n as a whole. */
void flow_all_gather(struct flow *flow, const struct op *op);
void flow_reduce_scatter(struct flow *flow, const struct op *op);

/* Shapes that both directions use. */
struct attention flow_attention(const struct flow *flow);
struct cross_attention flow_cross_attention(const struct flow *flow, const struct op *op,
                                            int key_values);
struct activation_shape flow_activation(const struct op *op);
struct norm flow_norm(const struct flow *flow, const struct op *op);
struct residual flow_residual(const struct flow *flow, const struct op *op);
struct route flow_route(const struct op *op);
/* Between tokens and `placed`, a value that lies in the experts' places. */
struct passage flow_passage(const struct flow *flow, const struct op *op, int placed);
struct embedding flow_embedding(const struct flow *flow, const struct op *op);
struct cross_entropy flow_loss(const struct flow *flow, long rows, double columns);
/* Of queries and keys, in place. */
bool flow_is_head_norm(const struct flow *flow, const struct op *op);

/* Issues a kernel on the compute stream: ISSUE(flow, rotary_forward, rotary, .qkv = ...). */
#define ISSUE(flow, kernel, args, ...)                                                      \
    (flow)->machine->kernel_api->kernel((flow)->machine->kernels, (flow)->machine->compute, \
                                        &(struct args){ __VA_ARGS__ })

#endif
