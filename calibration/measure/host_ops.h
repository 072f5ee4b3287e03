/* calibration/measure/host_ops.h - times of the executor's ops on this machine, by shape.
 *
 * All ranks at the same time, each by itself, train a few steps of small models of many shapes.
 * Each op is timed within such a step, after the op that made its input, with the caches as that op
 * left them. Time stolen by other processes is subtracted. Steps of several microbatches or ranks,
 * and whole steps, are never timed: they are held out. */
#ifndef CALIBRATION_MEASURE_HOST_OPS_H
#define CALIBRATION_MEASURE_HOST_OPS_H

#include "calibration/measure/host_rank.h"
#include "calibration/measure/host_shapes.h"
#include "sim/cost/kernel.h"

/* Seconds of one op: over the repeats, and over all ranks. */
struct host_time {
    double median_s, p10_s, p90_s;
};

struct host_op {
    int kind; /* kind, as in struct kernel */
    int pass;
    const char *variant; /* static text */
    double size[NUM_KERNEL_SIZES];
    struct host_time time;
};

struct host_ops {
    struct host_op *at;
    int count, room;
    double outside_s; /* median time per pass that no op and no update accounts for */
};

/* Adds the ops of one shape. All ranks call it together, in the same order. */
bool host_ops_measure(struct host_rank *host, const struct host_shape *shape,
                      const struct stack *stack, double seconds, struct arena *arena,
                      struct host_ops *ops, struct err *err);

#endif
