/* exec/flow.h - a part on its way through its list: what forward.c, backward.c and head.c share.
 * Only they and flow.c include it. */
#ifndef EXEC_FLOW_H
#define EXEC_FLOW_H

#include "exec/machine.h"

/* A register: memory of its own, or a view of a saved slot. */
struct value {
    void *at;
    bool is_owned;
};

/* Of a microbatch's. */
struct rows {
    long first, count;
};

struct flow {
    struct machine *machine;
    const struct part *part;
    const struct microbatch *microbatch;
    struct record *record;
    struct value h, x;     /* forward: the residual stream, the branch; backward: their gradients */
    struct value gathered; /* backward: an input that was gathered again */
    struct rows rows;      /* of the head, that are at work */
    struct value logits;   /* of a run of them */
    struct value scores;   /* backward of unfused attention: gradients of the probabilities */
    bool leaves_out;       /* some ops of the list, so that `after` may name one that did not run */
    struct event *last_transfer; /* of the tensor stream that compute has not waited for */
};

/* The op at `i` of a list, which a handler runs. */
typedef void flow_op(struct flow *flow, const struct op *op, int i);

/* Device memory for values, for work that is issued from now on; as machine_take. */
struct value flow_new(struct flow *flow, double elements);
void flow_free(struct flow *flow, struct value *value); /* and empties it */
void flow_replace(struct flow *flow, struct value *old,
                  struct value by); /* old's memory is freed */
/* What the forward op at an index keeps: its own tensors, those of the op that is folded into it,
 * and inputs that outlive a replay. */
void *flow_own_slot(const struct flow *flow, int forward);
void *flow_folded_slot(const struct flow *flow, int forward);
void *flow_input_slot(const struct flow *flow, int forward);
/* As flow_free, for what the tensor stream may still read. */
void flow_free_late(struct flow *flow, struct value *value);

/* Runs the op at `i` of a list by the handler of its kind. Compute first waits for the op's `after`
 * on the tensor stream. What runs on the tensor stream waits for all that compute has been given:
 * its `after` is the last of that. */
void flow_run(struct flow *flow, const struct ops *list, int i,
              flow_op *const handlers[NUM_OP_KINDS]);
/* What compute issues from now on runs after the whole list. */
void flow_finish(struct flow *flow);
/* The stream that an op of the list runs on. */
struct stream *flow_stream(const struct flow *flow, const struct op *op);

/* A collective of values over the tensor ranks: `count` of each rank, in comm.h's sense. */
void flow_collective(struct flow *flow, const struct op *op, enum comm_kind kind, const void *in,
                     void *out, double count);
/* The same of fp32 on the compute stream. */
void flow_all_reduce_fp32(struct flow *flow, enum reduction reduction, float *at, double count);

/* fp32 behind `count` values that are kept in one slot. */
float *flow_statistics(const struct flow *flow, void *values, double count);

/* Shapes that both directions use. */
struct attention flow_attention(const struct flow *flow);
double flow_qkv_elements(const struct attention *attention);
struct activation_shape flow_activation(const struct flow *flow, const struct op *op);
struct norm flow_norm(const struct flow *flow, const struct op *op);
struct residual flow_residual(const struct flow *flow, const struct op *op, int i);
struct embedding flow_embedding(const struct flow *flow, const struct op *op);
struct cross_entropy flow_loss(const struct flow *flow, const struct op *op);
bool flow_is_head_norm(const struct op *op);

/* Issues a kernel on the compute stream: ISSUE(flow, rotary_forward, rotary, .qkv = ...). */
#define ISSUE(flow, kernel, args, ...)                                                      \
    (flow)->machine->kernel_api->kernel((flow)->machine->kernels, (flow)->machine->compute, \
                                        &(struct args){ __VA_ARGS__ })

#endif
