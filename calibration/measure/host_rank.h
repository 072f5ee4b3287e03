/* calibration/measure/host_rank.h - one of the processes that measure a machine together: its
 * device, its communicator, and training steps of a plan on these. The machine's devices are cores
 * or GPUs. */
#ifndef CALIBRATION_MEASURE_HOST_RANK_H
#define CALIBRATION_MEASURE_HOST_RANK_H

#include "calibration/measure/host_shapes.h"
#include "exec/comm/place.h"
#include "exec/run/rank.h"
#include "sim/cost/hardware.h"

/* Sizes that keep a device busy. */
struct host_load {
    size_t copied_bytes; /* larger than any cache */
    long side;           /* side of the square matrix products that overlap messages */
    size_t exchanged;    /* fp32 numbers in one of these messages */
    enum host_grid grid; /* models whose ops are timed */
};

struct host_rank {
    struct place place;
    const struct device_api *api;
    const struct kernel_api *kernel_api;
    const struct comm_api *comm_api;
    const struct host_load *load;
    enum precision precision; /* precision of the timed training steps */
    struct device *device;
    struct comm *comm;   /* communicator of all ranks */
    struct group *world; /* group of all ranks */
    struct comm *self;   /* communicator of this rank alone */
    bool is_busy;        /* other programs use the cores, so fewer repeats are made */
};

/* The smallest number of repeats: `usual` or, if other programs use the cores, half of it, rounded
 * up. */
int host_rank_least(const struct host_rank *host, int usual);

/* Opens the device and communicators. All ranks call it together; `backend` is a name in
 * exec/plugin/backend.h. On failure nothing is left open. */
bool host_rank_open(const struct place *place, const char *backend, size_t arena_bytes,
                    struct host_rank *out, struct err *err);
void host_rank_close(struct host_rank *host);
/* Device memory that is enough for calibration/measure/host_comm.h and gpu_sweep.h. */
size_t host_arena_bytes(const char *backend);

/* Waits until all ranks have called it. */
bool host_rank_meet(struct host_rank *host, struct stream *stream, struct err *err);

/* Replaces each of `count` numbers by its mean over the ranks. */
bool host_rank_average(struct host_rank *host, double *numbers, size_t count, struct err *err);
/* Replaces each number by its maximum over a group, all ranks of which call it together. */
bool host_rank_most(struct host_rank *host, struct group *group, double *numbers, size_t count,
                    struct err *err);

/* A plan that is ready to run steps on random tokens with AdamW. It has a separate device handle,
 * besides the rank's. */
struct host_run {
    const struct device_api *api;
    struct device *device;
    struct arena arena;
    struct plan plan;
    struct model model;
    struct token_source tokens;
    struct run_setup setup;
    struct rank *rank;
};

struct host_run_options {
    const char *layout;
    const struct stack *stack;
    size_t arena_bytes;
    bool is_alone; /* every rank runs the whole plan by itself; the plan has one rank */
};

/* Prepares a plan. ERR_INFEASIBLE if the plan cannot run; err->where then begins with the layout.
 * Release with host_run_close. */
bool host_run_open(struct host_rank *host, const struct model *model,
                   const struct host_run_options *options, struct host_run *out, struct err *err);
void host_run_close(struct host_run *run);

/* Options for the op lists that match a stack's runs on the host. The head computes all logits at
 * once, so that each op is timed once per step. */
struct layer_options host_layer_options(const struct stack *stack, const struct plan *plan);

#endif
