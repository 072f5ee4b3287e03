/* calibration/host_ops.h - how long the executor's ops take on this machine, by shape.
 *
 * Every rank trains a few steps of models of a few layers and of many shapes by itself, at the same
 * time as all others, and each op is timed where it runs: behind the op that made its input, with
 * the caches as that left them. Time stolen by other processes is subtracted. Steps of several
 * microbatches or ranks, and whole steps, are never timed: they are held out. */
#ifndef CALIBRATION_HOST_OPS_H
#define CALIBRATION_HOST_OPS_H

#include "calibration/host_rank.h"
#include "calibration/host_shapes.h"
#include "sim/cost/kernel.h"

/* Seconds of one op: over the repeats, and over all ranks. */
struct host_time {
    double median_s, p10_s, p90_s;
};

struct host_op {
    int kind; /* as in struct kernel */
    int pass;
    const char *variant; /* static text */
    double size[NUM_KERNEL_SIZES];
    struct host_time time;
};

struct host_ops {
    struct host_op *at;
    int count, room;
    double outside_s; /* median part of a step that no op and no update accounts for, a pass */
};

/* Adds the ops of one shape. All ranks call it together, in the same order. */
bool host_ops_measure(struct host_rank *host, const struct host_shape *shape,
                      const struct stack *stack, double seconds, struct arena *arena,
                      struct host_ops *ops, struct err *err);

#endif
