/* exec/exchange/exchanger.h - carries out the exchange between data ranks.
 *
 * It runs a method of sim/exchange with device memory, kernels and a communicator. The phases of a
 * step come from there, so the bytes sent are those that were costed. Methods that exchange
 * gradients give every rank the same sum; methods that exchange weights bring the ranks closer step
 * by step. All work runs in order on one stream; nothing here waits. */
#ifndef EXEC_EXCHANGE_EXCHANGER_H
#define EXEC_EXCHANGE_EXCHANGER_H

#include "exec/comm/comm.h"
#include "exec/device/kernels.h"
#include "sim/exchange/exchange.h"

/* The groups that phases run over: all data ranks; neighbours that act as one; the ranks with this
 * rank's index in the other such groups. NULL: one rank. Members are in the order of the data
 * ranks. */
struct exchange_groups {
    const struct comm_api *api;
    struct group *all, *near, *far;
};

/* Makes the groups of this rank's data ranks, `ranks` of the world. All ranks of the world call it
 * together, with the same exchange and numbers. On failure nothing is left open. */
bool exchange_groups_new(const struct comm_api *api, struct comm *comm,
                         const struct exchange *exchange, const struct exchange_ranks *numbers,
                         const int *ranks, int index, struct exchange_groups *out, struct err *err);
void exchange_groups_free(struct exchange_groups *groups);
/* Bytes that this rank has sent in these groups; negative when the communicator does not count.
 * Call it between steps. */
double exchange_groups_sent_bytes(const struct exchange_groups *groups);

/* Borrowed, but for the tensors, which are copied. */
struct exchanger_setup {
    const struct exchange *exchange;
    const struct exchange_groups *groups;
    struct exchange_ranks ranks;
    const struct exchange_tensor *tensors; /* the exchanged tensors, in memory order */
    int num_tensors;
    const struct device_api *device_api;
    struct device *device;
    const struct kernel_api *kernel_api;
    struct kernels *kernels; /* opened for fp32, as gradients are kept */
    struct stream *stream;   /* the stream of all issued work */
    struct draw draw; /* random draw for this exchange alone; its step follows the training step */
};

struct exchanger;

/* Whether these kernels have all that the method needs. ERR_UNAVAILABLE, where = "exchange". */
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

/* Call it first: the calls that follow belong to step `step`, from 0. */
void exchanger_begin_step(struct exchanger *exchanger, int step);
/* Number of ranks whose gradients are summed in this step: all, those that act as one, or 1. */
int exchanger_num_summed(const struct exchanger *exchanger);
/* exchanger_begins_early: whether a step begins with work of earlier gradients, which can run
 * beside its passes. exchanger_begin: does it, before exchanger_sum. */
bool exchanger_begins_early(const struct exchanger *exchanger);
void exchanger_begin(struct exchanger *exchanger);
/* Replaces the gradients by their sum over those ranks, or by that of an earlier step. */
void exchanger_sum(struct exchanger *exchanger, float *gradients);
/* exchanger_averages: whether weights are exchanged in this step. exchanger_average: computes their
 * average; `out` must not overlap `weights`. */
bool exchanger_averages(const struct exchanger *exchanger);
void exchanger_average(struct exchanger *exchanger, const float *weights, float *out);
/* After the step. exchanger_wants_loss: whether the period adapts to the step's mean loss over all
 * ranks. exchanger_end_step: takes that loss; ignored when not wanted. */
bool exchanger_wants_loss(const struct exchanger *exchanger);
void exchanger_end_step(struct exchanger *exchanger, double loss);

/* Bytes that all ranks together should have sent in the steps begun so far, by sim/exchange's
 * count. */
double exchanger_planned_bytes(const struct exchanger *exchanger);

/* --- what goes on from step to step --------------------------------------------------------- */

/* Name of the state that each rank keeps beside weights and moments: "error memory"; NULL: none. */
const char *exchange_keeps(const struct exchange *exchange);

/* One array of that state, in device memory; owned by the exchanger. */
struct kept {
    float *at;
    size_t count;
};
enum { MAX_KEPT = 3 };
/* Call it between steps; returns the number of arrays. */
int exchanger_kept(const struct exchanger *exchanger, struct kept out[MAX_KEPT]);

/* The position between two averages over all ranks. */
struct exchange_period {
    int since;         /* steps since the last one */
    int period;        /* steps from one average to the next; 0: none */
    double first_loss; /* the loss that periods adapt to; 0: not known yet */
};
struct exchange_period exchanger_period(const struct exchanger *exchanger);
void exchanger_set_period(struct exchanger *exchanger, struct exchange_period period);

#endif
