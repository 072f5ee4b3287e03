/* sim/cost/straggler.h - synchronous training runs at the speed of its slowest chip. */
#ifndef SIM_COST_STRAGGLER_H
#define SIM_COST_STRAGGLER_H

#include "base/normal.h"

/* How many times longer compute takes on the slowest of `num_gpus` chips than on a measured node of
 * eight, when sustained speed is normal with relative standard deviation `spread`. */
double straggler_slowdown(double spread, int num_gpus);

/* How much later than the mean the last of n ranks arrives after each computed for `compute_s`.
 * Disturbances of a rank are random and independent of the others', so the variance of its time
 * grows by drift_s per second (a Poisson process, or any random walk). */
double drift_wait_s(double drift_s, double compute_s, int num_ranks);

#endif
