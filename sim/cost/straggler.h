/* sim/cost/straggler.h - synchronous training runs at the speed of its slowest chip. */
#ifndef SIM_COST_STRAGGLER_H
#define SIM_COST_STRAGGLER_H

#include "base/normal.h"

/* Compute time on the slowest of `num_gpus` chips divided by that on the slowest of a measured node
 * of eight. Speeds are normally distributed with relative standard deviation `spread`. */
double straggler_slowdown(double spread, int num_gpus);

/* Expected delay of the last of n ranks behind their mean, after each has computed for `compute_s`.
 * Ranks are disturbed at random and independently, so the variance of a rank's time grows by
 * drift_s per second (as in a Poisson process or any random walk). */
double drift_wait_s(double drift_s, double compute_s, int num_ranks);

#endif
