/* tests/exec/exchange/exchange_side.h - the objects that one rank has for a gradient exchange
 * (device, communicator, exchanger), and a convex problem that it trains. */
#ifndef TESTS_EXEC_EXCHANGE_EXCHANGE_SIDE_H
#define TESTS_EXEC_EXCHANGE_EXCHANGE_SIDE_H

#include "exec/exchange/exchanger.h"
#include "exec/exchange/hostile.h"
#include "tests/exec/exchange/logistic.h"

/* An open communicator. Several exchanges may use it one after another. */
struct exchange_world {
    const struct comm_api *api;
    struct comm *comm;
    int rank, size;
};
/* On failure prints the reason and returns false. */
bool exchange_world_open(struct exchange_world *world, const struct comm_api *api,
                         const struct comm_options *options);

/* Calls `part` on `size` threads, one for each rank; returns whether all calls succeeded. */
bool exchange_threads_run(int size, bool (*part)(void *job, const struct exchange_world *world),
                          void *job);

struct exchange_side {
    struct exchange_world on;
    struct device *device;
    struct stream *stream;
    struct kernels *kernels;
    struct group
        *world; /* a group of all ranks that collects results; the exchange does not use it */
    struct exchange exchange;
    struct exchange_groups groups;
    struct exchanger *exchanger;
    size_t elements; /* length of the arrays below, which lie in device memory and are 0 at first */
    float *gradients, *weights, *averaged;
};

/* Opens an exchange by its layout text, such as "gossip:ring", over all ranks. On failure prints
 * the reason and returns false. */
bool exchange_side_open(struct exchange_side *side, const struct exchange_world *world,
                        const char *word, const struct exchange_tensor *tensors, int num_tensors,
                        int per_node);
void exchange_side_close(struct exchange_side *side);

/* Waits for all issued work. If work failed, prints the reason and returns false. */
bool exchange_side_sync(struct exchange_side *side);
/* Sum of a value over all ranks; NaN on failure. */
double exchange_side_total(struct exchange_side *side, double value);

/* One step of gradient descent with the exchange. `gradients` holds this rank's gradients at its
 * weights; `loss` is the mean loss over the ranks. */
bool exchange_side_descend(struct exchange_side *side, int step, double rate, double loss);

/* Many steps on the convex problem from weights 0, with one shard of the samples per rank. */
struct convex_run {
    const struct logistic *problem;
    int steps;
    double rate;
    int batch;    /* number of samples drawn for each gradient; 0: all samples are used */
    double fades; /* number of steps after which the learning rate is half; 0: never */
    struct hostility hostility;
    /* Results: */
    double loss;       /* final loss at the mean of all ranks' weights */
    double apart;      /* root mean square distance of ranks' weights from that mean */
    double sent_bytes; /* bytes that all ranks have sent; negative: not known */
    double planned_bytes;
    double *losses; /* [step] losses, written by the first rank; NULL: not needed */
};
bool exchange_side_train(struct exchange_side *side, struct convex_run *run);

#endif
