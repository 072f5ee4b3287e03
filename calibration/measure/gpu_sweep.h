/* calibration/measure/gpu_sweep.h - times of single ops on a GPU, over grids of sizes. They show
 * effects that formulas do not have: steps in a matrix product's time at whole tiles and waves,
 * short sequences, small updates.
 *
 * Every op runs by itself on random values, three times untimed and then a few times, so a small op
 * finds its inputs in the caches. calibration/measure/host_ops.h times ops within whole layers,
 * with the caches as the op before left them. The grid depends on the device (struct host_load). */
#ifndef CALIBRATION_MEASURE_GPU_SWEEP_H
#define CALIBRATION_MEASURE_GPU_SWEEP_H

#include "calibration/measure/host_ops.h"

enum { GPU_SWEEP_MOST_REPEATS = 9 };

/* Adds the ops of the grid, fewer if `is_quick`, each timed `repeats` times, from 1 to a maximum.
 * All ranks call it together. */
bool gpu_sweep_measure(struct host_rank *host, bool is_quick, int repeats, struct host_ops *ops,
                       struct err *err);

#endif
