/* sim/cost/list_cost.h - the time of a list of ops on a compute stream and one communication stream
 * per axis. */
#ifndef SIM_COST_LIST_COST_H
#define SIM_COST_LIST_COST_H

#include "sim/cost/hardware.h"
#include "sim/cost/timed_op.h"

/* Time of one list, run once while the host launches ahead of the GPU. Its total is compute_s +
 * comm_s. */
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

/* What lists of one piece have in common. */
struct list_timer {
    const struct profile *profile;
    int num_sms;
    int buffer_ranks; /* of the tensor group whose collectives use user buffers; 0: none */
};

/* At most MAX_LIST_OPS ops. */
struct list_cost timed_list_cost(const struct list_timer *timer, const struct timed_op *ops,
                                 int count);

#endif
