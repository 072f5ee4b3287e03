/* sim/cost/list_cost.h - the time of an op list (the sequence of operations of one layer) on a
 * compute stream and one communication stream per axis. */
#ifndef SIM_COST_LIST_COST_H
#define SIM_COST_LIST_COST_H

#include "sim/cost/hardware.h"
#include "sim/cost/timed_op.h"

/* Time of one run of an op list while the host launches kernels ahead of the GPU. Its total is
 * compute_s + comm_s. */
struct list_cost {
    double total_s;
    double compute_s;
    double comm_s;      /* exposed communication */
    double context_s;   /* the context group's part of comm_s */
    double expert_s;    /* the expert groups' part of comm_s */
    double attention_s; /* flash attention's part of compute_s */
    /* number of launches by the host; launching can take longer than the GPU's work */
    double kernels;
    double flops;
};

enum { MAX_LIST_OPS = 192 };

/* What the op lists of one piece (a layer, the embedding or the head) have in common. */
struct list_timer {
    const struct profile *profile;
    int num_sms;
    /* number of ranks of the tensor group if its collectives use user buffers; 0: they do not */
    int buffer_ranks;
};

/* At most MAX_LIST_OPS ops. */
struct list_cost timed_list_cost(const struct list_timer *timer, const struct timed_op *ops,
                                 int count);

#endif
