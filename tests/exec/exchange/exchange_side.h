/* tests/exec/exchange/exchange_side.h - one rank's side of an exchange: its device, communicator
 * and exchanger, and a convex problem trained over them. */
#ifndef TESTS_EXEC_EXCHANGE_EXCHANGE_SIDE_H
#define TESTS_EXEC_EXCHANGE_EXCHANGE_SIDE_H

#include "exec/exchange/exchanger.h"
#include "exec/exchange/hostile.h"
#include "tests/exec/exchange/logistic.h"

/* An open communicator, which the sides of several exchanges may use one after another. */
struct exchange_world {
    const struct comm_api *api;
    struct comm *comm;
    int rank, size;
};
/* False, with the reason printed. */
bool exchange_world_open(struct exchange_world *world, const struct comm_api *api,
                         const struct comm_options *options);

/* Has each of `size` threads do its rank's part of a job; whether all could. */
bool exchange_threads_run(int size, bool (*part)(void *job, const struct exchange_world *world),
                          void *job);

struct exchange_side {
    struct exchange_world on;
    struct device *device;
    struct stream *stream;
    struct kernels *kernels;
    struct group *world; /* for results, not for the exchange */
    struct exchange exchange;
    struct exchange_groups groups;
    struct exchanger *exchanger;
    size_t elements; /* of each of these, in the device's memory, zeroed */
    float *gradients, *weights, *averaged;
};

/* Opens an exchange by its layout text, such as "gossip:ring", over all ranks; false, with the
 * reason printed. */
bool exchange_side_open(struct exchange_side *side, const struct exchange_world *world,
                        const char *word, const struct exchange_tensor *tensors, int num_tensors,
                        int per_node);
void exchange_side_close(struct exchange_side *side);

/* Waits for all issued work; false, with the reason printed, when it failed. */
bool exchange_side_sync(struct exchange_side *side);
/* Sum of a value over all ranks; NaN when that failed. */
double exchange_side_total(struct exchange_side *side, double value);

/* One step of gradient descent in the method's way: `gradients` are this rank's, of its weights;
 * `loss` is the mean over the ranks. */
bool exchange_side_descend(struct exchange_side *side, int step, double rate, double loss);

/* The same many times on the problem, one shard a rank, from 0. */
struct convex_run {
    const struct logistic *problem;
    int steps;
    double rate;
    int batch;    /* samples drawn for each gradient; 0: all */
    double fades; /* steps after which the rate is half; 0: never */
    struct hostility hostility;
    /* Found: */
    double loss;       /* of the mean of all ranks' weights, at the end */
    double apart;      /* root of the mean of ranks' squared distances from that mean */
    double sent_bytes; /* of all ranks; negative: not known */
    double planned_bytes;
    double *losses; /* of each step, which the first rank writes; NULL: not wanted */
};
bool exchange_side_train(struct exchange_side *side, struct convex_run *run);

#endif
