/* tests/exec/list_run.h - runs an op list (a sequence of operations of a model), given as data,
 * with the host's executor. */
#ifndef TESTS_EXEC_LIST_RUN_H
#define TESTS_EXEC_LIST_RUN_H

#include "exec/ops/piece.h"
#include "exec/ops/store.h"
#include "tests/kernels/numeric.h"
#include "tests/sim/listed.h"

enum { LIST_RUN_SEQUENCES = 2 };

/* An op list on one rank, with random weights and inputs, in fp32. */
struct list_run {
    struct numeric numeric; /* owns all memory; values are random, except that tokens always choose
                               the same experts */
    struct model model;
    struct plan plan;
    struct local_ops lists;
    struct lifetimes lifetimes;
    struct piece piece;
    struct store store;
    struct machine machine;
    struct record record;
    struct microbatch microbatch;
    double loss;
    float loss_gradient_scale;
    int64_t *targets;
    float *x, *dy;                           /* input of the list, and gradient of its output */
    float *y, *dx;                           /* output, and gradient of the input */
    float *aside[MAX_IDS], *daside[MAX_IDS]; /* values from other lists, and their gradients */
    float **weights;                         /* [weight id] pointer into the store */
    float **gradients;                       /* [weight id] pointer into the store */
    size_t forward_bytes; /* device memory between forward and backward, without the output */
};

void list_run_open(struct list_run *run, const struct listed *listed,
                   const struct layer_options *options);
/* Runs forward and backward. If `in_halves` is true, the backward first computes all input
 * gradients and then all weight gradients. */
void list_run_once(struct list_run *run, bool in_halves);
void list_run_close(struct list_run *run);

/* Number of elements of a value, and of a weight. */
long list_run_elements(const struct list_run *run, int value);
long list_run_weight(const struct list_run *run, int weight);

#endif
