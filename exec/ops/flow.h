/* exec/ops/flow.h - the state of a piece (layer, embedding or head) while its op list (sequence of
 * operations) runs: shared by forward.c, backward.c, head.c and flow.c. No other file includes
 * it. */
#ifndef EXEC_OPS_FLOW_H
#define EXEC_OPS_FLOW_H

#include "exec/ops/machine.h"
#include "exec/ops/piece.h"

/* A range of rows of a microbatch. */
struct rows {
    long first, count;
};

struct flow {
    struct machine *machine;
    const struct piece *piece;
    const struct ops *list; /* the piece's forward or its backward */
    const struct last_reader *last;
    const struct microbatch *microbatch;
    struct record *record; /* holds the values of this pass */
    struct rows rows;      /* the head's current row block */
    bool leaves_out; /* whether some ops of the list are skipped, so that `after` may name an op
                      * that did not run */
    /* last event of the tensor stream that compute has not yet waited for */
    struct event *last_transfer;
};

/* Runs one op of the list. */
typedef void flow_op(struct flow *flow, const struct op *op);

/* Address of a value: its own memory if it has some, else its slot in the record's kept memory.
 * NULL: not made yet. */
void *flow_at(const struct flow *flow, int value);
/* Address of the `i`-th value that an op reads. */
void *flow_in(const struct flow *flow, const struct op *op, int i);
/* Address for the `i`-th value that an op makes: its slot in the record, else the memory that it
 * already has, else new memory from machine_take. */
void *flow_out(struct flow *flow, const struct op *op, int i);
/* Gives the op's first output the memory of its `i`-th operand, which the op overwrote. */
void *flow_in_place(struct flow *flow, const struct op *op, int i);
/* The same, with the memory of the value to which the output is added. */
void *flow_add_in_place(struct flow *flow, const struct op *op);
double flow_elements(const struct flow *flow, int value);
enum value_form flow_form(const struct flow *flow, int value);
/* Address of element `first` of an array of values; NULL if `values` is NULL. */
void *flow_from(const struct flow *flow, const void *values, double first);
/* Passes a value's own memory to the caller; NULL for NO_ID. */
void *flow_take(struct flow *flow, int value);
/* Frees a value's memory, if it is its own. */
void flow_free(struct flow *flow, int value);
/* flow_is_read_last: whether the op at `i` is the last that reads the value, and the value has no
 * memory that must be kept for the backward. flow_free_read: frees the operands of the op at `i`
 * for which that holds. */
bool flow_is_read_last(const struct flow *flow, int i, int value);
void flow_free_read(struct flow *flow, int i);

/* Runs the op at `i` of the list with the handler of its kind, and adds its output to the gradient
 * that its `sum` names. `after` is the last op of the list that must have run before this op. If
 * that op runs on the tensor stream and this op does not, compute waits for it. An op on the tensor
 * stream waits for all compute issued so far, which includes its `after`. */
void flow_run(struct flow *flow, int i, flow_op *const handlers[NUM_OP_KINDS]);
/* Work that is issued on the compute stream after this call runs after the whole list. */
void flow_finish(struct flow *flow);
/* The stream that an op of the list runs on. */
struct stream *flow_stream(const struct flow *flow, const struct op *op);

/* A collective of values over the tensor ranks, with `count` as in comm.h. */
void flow_collective(struct flow *flow, const struct op *op, enum comm_kind kind, const void *in,
                     void *out, double count);
/* An all-reduce of fp32 values on the compute stream. */
void flow_all_reduce_fp32(struct flow *flow, enum reduction reduction, float *at, double count);
/* Gathers the value that an op reads into its output of m x n values. */
void flow_all_gather(struct flow *flow, const struct op *op);
void flow_reduce_scatter(struct flow *flow, const struct op *op);

/* Shapes that forward and backward use. */
struct attention flow_attention(const struct flow *flow);
struct cross_attention flow_cross_attention(const struct flow *flow, const struct op *op,
                                            int key_values);
struct activation_shape flow_activation(const struct op *op);
struct norm flow_norm(const struct flow *flow, const struct op *op);
struct residual flow_residual(const struct flow *flow, const struct op *op);
struct route flow_route(const struct op *op);
/* The mapping between tokens and the rows of `placed`, a value whose rows are sorted by expert. */
struct passage flow_passage(const struct flow *flow, const struct op *op, int placed);
struct embedding flow_embedding(const struct flow *flow, const struct op *op);
struct cross_entropy flow_loss(const struct flow *flow, long rows, double columns);
/* Whether a norm is the norm of queries and keys, which works in place. */
bool flow_is_head_norm(const struct flow *flow, const struct op *op);

/* Issues a kernel on the compute stream: ISSUE(flow, rotary_forward, rotary, .qkv = ...). */
#define ISSUE(flow, kernel, args, ...)                                                      \
    (flow)->machine->kernel_api->kernel((flow)->machine->kernels, (flow)->machine->compute, \
                                        &(struct args){ __VA_ARGS__ })

#endif
