/* exec/exchange/exchanger.h - carries out the exchange between data ranks.
 *
 * It runs a method of sim/exchange with device memory, kernels and a communicator. sim/exchange
 * also defines the phases of a step, so the bytes sent equal those of the cost model. Methods that
 * exchange gradients give every rank the same sum; methods that exchange weights bring the ranks
 * closer step by step. All work runs in order on one stream; no function waits for it. */
#ifndef EXEC_EXCHANGE_EXCHANGER_H
#define EXEC_EXCHANGE_EXCHANGER_H

#include "exec/comm/comm.h"
#include "exec/device/kernels.h"
#include "sim/exchange/exchange.h"

/* The groups that phases run over: all data ranks; the neighbours that act as one rank; and the
 * ranks that have this rank's index in the other groups of neighbours. NULL: one rank. Members are
 * in the order of the data ranks. */
struct exchange_groups {
    const struct comm_api *api;
    struct group *all, *near, *far;
};

/* Makes the groups of this rank's data ranks; `ranks` are their numbers in the world. All ranks of
 * the world call it together, with the same exchange and numbers. On failure nothing is left
 * open. */
bool exchange_groups_new(const struct comm_api *api, struct comm *comm,
                         const struct exchange *exchange, const struct exchange_ranks *numbers,
                         const int *ranks, int index, struct exchange_groups *out, struct err *err);
void exchange_groups_free(struct exchange_groups *groups);
/* Bytes that this rank has sent in these groups; negative: the communicator does not count. Call it
 * between steps. */
double exchange_groups_sent_bytes(const struct exchange_groups *groups);

/* All pointers are borrowed, except that the tensors are copied. */
struct exchanger_setup {
    const struct exchange *exchange;
    const struct exchange_groups *groups;
    struct exchange_ranks ranks;
    const struct exchange_tensor *tensors; /* the exchanged tensors, in memory order */
    int num_tensors;
    const struct device_api *device_api;
    struct device *device;
    const struct kernel_api *kernel_api;
    struct kernels *kernels; /* opened for fp32, the type of gradients */
    struct stream *stream;   /* the stream of all issued work */
    struct draw draw; /* the random draw, used by this exchange alone; its `step` is set to each
                         training step */
};

struct exchanger;

/* Whether these kernels include all kernels that the method needs; if not, ERR_UNAVAILABLE, where =
 * "exchange". */
bool exchanger_can_run(const struct exchange *exchange, const struct kernel_api *kernel_api,
                       struct err *err);

/* NULL with ERR_SYSTEM when the device has no memory. */
struct exchanger *exchanger_new(const struct exchanger_setup *setup, struct err *err);
void exchanger_free(struct exchanger *exchanger);

/* Device memory of an exchanger in bytes, without the allocator's rounding. */
double exchanger_memory_bytes(const struct exchange *exchange, const struct exchange_load *load,
                              const struct exchange_ranks *ranks);

/* Length of the arrays below in floats: the tensors' elements, padded with zeros so that ranks get
 * equal parts. */
size_t exchanger_elements(const struct exchanger *exchanger);

/* Begins step `step`, counted from 0. Later calls belong to it. */
void exchanger_begin_step(struct exchanger *exchanger, int step);
/* Number of ranks whose gradients are summed in this step: all ranks, the ranks that act as one, or
 * 1. */
int exchanger_num_summed(const struct exchanger *exchanger);
/* exchanger_begins_early: whether a step begins with work on earlier gradients, which can overlap
 * its passes. exchanger_begin: issues that work, before exchanger_sum. */
bool exchanger_begins_early(const struct exchanger *exchanger);
void exchanger_begin(struct exchanger *exchanger);
/* Replaces the gradients by their sum over exchanger_num_summed ranks, or by the sum of an earlier
 * step. */
void exchanger_sum(struct exchanger *exchanger, float *gradients);
/* exchanger_averages: whether weights are exchanged in this step. exchanger_average: computes their
 * average; `out` must not overlap `weights`. */
bool exchanger_averages(const struct exchanger *exchanger);
void exchanger_average(struct exchanger *exchanger, const float *weights, float *out);
/* Called after the step. exchanger_wants_loss: whether the period adapts to the step's mean loss
 * over all ranks. exchanger_end_step: receives that loss; ignored if not wanted. */
bool exchanger_wants_loss(const struct exchanger *exchanger);
void exchanger_end_step(struct exchanger *exchanger, double loss);

/* Bytes that all ranks together should have sent in the steps begun so far, by sim/exchange's
 * count. */
double exchanger_planned_bytes(const struct exchanger *exchanger);

/* --- state that lasts from step to step ----------------------------------------------------- */

/* Name of the state that each rank keeps in addition to weights and moments, such as
 * "error-feedback buffers"; NULL: none. */
const char *exchange_keeps(const struct exchange *exchange);

/* One array of the state that exchange_keeps names, in device memory; owned by the exchanger. */
struct kept {
    float *at;
    size_t count;
};
enum { MAX_KEPT = 3 };
/* Lists the kept arrays and returns their number. Call it between steps. */
int exchanger_kept(const struct exchanger *exchanger, struct kept out[MAX_KEPT]);

/* The position between two averages over all ranks. */
struct exchange_period {
    int since;         /* steps since the last average */
    int period;        /* steps from one average to the next; 0: none */
    double first_loss; /* the loss that periods adapt to; 0: not known yet */
};
struct exchange_period exchanger_period(const struct exchanger *exchanger);
void exchanger_set_period(struct exchanger *exchanger, struct exchange_period period);

#endif
