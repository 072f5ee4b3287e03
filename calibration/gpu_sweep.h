/* calibration/gpu_sweep.h - how long single ops take on a GPU, one after the other, over grids that
 * show what a formula would smooth away: edges of tiles and waves of products, short sequences,
 * small updates.
 *
 * Every op runs by itself on random values, three times unseen and then a few times, so that caches
 * help it where they hold all that it reads. Whole layers, where each op finds what the one before
 * left, are calibration/host_ops.h. The grid is as wide as the device is (struct host_load). */
#ifndef CALIBRATION_GPU_SWEEP_H
#define CALIBRATION_GPU_SWEEP_H

#include "calibration/host_ops.h"

enum { GPU_SWEEP_MOST_REPEATS = 9 };

/* Adds the ops of the grid, which `is_quick` thins, each timed `repeats` times, from 1 to the most.
 * All ranks call it together. */
bool gpu_sweep_measure(struct host_rank *host, bool is_quick, int repeats, struct host_ops *ops,
                       struct err *err);

#endif
