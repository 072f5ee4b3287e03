/* calibration/measure/host_ops.h - times of the executor's ops on this machine, by shape.
 *
 * All ranks train small models of many shapes for a few steps, at the same time but each by itself.
 * Each op is timed within such a step, so that the caches are as the op before it left them. Time
 * stolen by other processes is subtracted. Steps with several microbatches or ranks, and whole
 * steps, are never used here: they are held out for checking. */
#ifndef CALIBRATION_MEASURE_HOST_OPS_H
#define CALIBRATION_MEASURE_HOST_OPS_H

#include "calibration/measure/host_rank.h"
#include "calibration/measure/host_shapes.h"
#include "sim/cost/kernel.h"

/* Seconds of one op, from all repeats on all ranks. */
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
    double outside_s; /* median time per pass outside all ops and the update */
};

/* Adds the ops of one shape. All ranks call it together, in the same order. */
bool host_ops_measure(struct host_rank *host, const struct host_shape *shape,
                      const struct stack *stack, double seconds, struct arena *arena,
                      struct host_ops *ops, struct err *err);

#endif
