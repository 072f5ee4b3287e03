/* exec/exchange/exchanger.h - how data ranks agree on what a step has learned, for real.
 *
 * Does with device memory, kernels and communicator what a method of sim/exchange says: the phases
 * of a step are taken from there, so that what is sent is what was costed. Methods that exchange
 * gradients make every rank hold the same sum; those that exchange weights make ranks alike by and
 * by. What it issues runs on one stream, in order; nothing here waits. */
#ifndef EXEC_EXCHANGE_EXCHANGER_H
#define EXEC_EXCHANGE_EXCHANGER_H

#include "exec/comm.h"
#include "exec/kernels.h"
#include "sim/exchange/exchange.h"

/* The groups that phases are of: all data ranks; neighbours that act as one; those at this rank's
 * place in other such groups. NULL: one rank. Members in the order of the data ranks. */
struct exchange_groups {
    const struct comm_api *api;
    struct group *all, *near, *far;
};

/* The data ranks of this rank, `ranks` of the world. All ranks of the world call it together, with
 * the same exchange and numbers. On failure nothing is left. */
bool exchange_groups_new(const struct comm_api *api, struct comm *comm,
                         const struct exchange *exchange, const struct exchange_ranks *numbers,
                         const int *ranks, int index, struct exchange_groups *out, struct err *err);
void exchange_groups_free(struct exchange_groups *groups);
/* Bytes that this rank has sent in them; negative where the communicator cannot tell. Between
 * steps. */
double exchange_groups_sent_bytes(const struct exchange_groups *groups);

/* Borrowed, but for the tensors, which are copied. */
struct exchanger_setup {
    const struct exchange *exchange;
    const struct exchange_groups *groups;
    struct exchange_ranks ranks;
    const struct exchange_tensor *tensors; /* of what is exchanged, in their order in memory */
    int num_tensors;
    const struct device_api *device_api;
    struct device *device;
    const struct kernel_api *kernel_api;
    struct kernels *kernels; /* opened for fp32, as gradients are kept */
    struct stream *stream;   /* of all that is issued */
    struct draw draw;        /* of this exchange and no other use; its step is the step's */
};

struct exchanger;

/* Whether these kernels have what the method needs. ERR_UNAVAILABLE, where = "exchange". */
bool exchanger_can_run(const struct exchange *exchange, const struct kernel_api *kernel_api,
                       struct err *err);

/* NULL with ERR_SYSTEM when the device has no memory. */
struct exchanger *exchanger_new(const struct exchanger_setup *setup, struct err *err);
void exchanger_free(struct exchanger *exchanger);

/* Device memory of an exchanger in bytes, rounding of the allocator left out. */
double exchanger_memory_bytes(const struct exchange *exchange, const struct exchange_load *load,
                              const struct exchange_ranks *ranks);

/* Floats of the arrays below: the elements of the tensors, then zeros so that ranks get equal
 * parts. */
size_t exchanger_elements(const struct exchanger *exchanger);

/* Before the others: what follows is of step `step`, from 0. */
void exchanger_begin_step(struct exchanger *exchanger, int step);
/* Ranks whose gradients are summed in this step: all, those that act as one, or 1. */
int exchanger_num_summed(const struct exchanger *exchanger);
/* In place: the sum over those. */
void exchanger_sum(struct exchanger *exchanger, float *gradients);
/* Whether weights are exchanged in this step, and their average; `out` does not overlap. */
bool exchanger_averages(const struct exchanger *exchanger);
void exchanger_average(struct exchanger *exchanger, const float *weights, float *out);
/* After the step: whether a period is to adapt to its mean loss over all ranks, which comes
 * together there anyway; and that loss, or anything where it is not wanted. */
bool exchanger_wants_loss(const struct exchanger *exchanger);
void exchanger_end_step(struct exchanger *exchanger, double loss);

/* Bytes that all ranks together should have sent in the steps that were begun: sim/exchange's
 * count. */
double exchanger_planned_bytes(const struct exchanger *exchanger);

/* --- what goes on from step to step --------------------------------------------------------- */

/* What each rank keeps for itself beside weights and moments, in words: "error memory"; NULL where
 * it keeps nothing. */
const char *exchange_keeps(const struct exchange *exchange);

/* One of its arrays, in the device's memory; the exchanger's own. */
struct kept {
    float *at;
    size_t count;
};
enum { MAX_KEPT = 3 };
/* Between steps; returns how many there are. */
int exchanger_kept(const struct exchanger *exchanger, struct kept out[MAX_KEPT]);

/* Where it is between two averages of all ranks. */
struct exchange_period {
    int since;         /* steps since the last one */
    int period;        /* to the next; 0: there is none */
    double first_loss; /* that periods adapt to; 0: not known yet */
};
struct exchange_period exchanger_period(const struct exchanger *exchanger);
void exchanger_set_period(struct exchanger *exchanger, struct exchange_period period);

#endif
