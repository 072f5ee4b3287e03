/* sim/cost/straggler.h - synchronous training runs at the speed of its slowest chip. */
#ifndef SIM_COST_STRAGGLER_H
#define SIM_COST_STRAGGLER_H

/* How many times longer compute takes on the slowest of `num_gpus` chips than on a measured node of
 * eight, when sustained speed is normal with relative standard deviation `spread`. */
double straggler_slowdown(double spread, int num_gpus);

/* Expected maximum of n standard normals (Blom 1958); 0 for one. */
double expected_maximum(double n);

/* The inverse: the n whose expected maximum is `expected`; 1 or more. */
double maximum_count(double expected);

/* The quantile of the largest of n standard normals at `probability`, in (0, 1). At a uniform
 * random number it is a draw of that maximum. Within 5e-4 (Abramowitz and Stegun 1964, 26.2.23). */
double maximum_quantile(double n, double probability);

/* How much later than the mean the last of n ranks arrives after each computed for `compute_s`.
 * Disturbances of a rank are random and independent of the others', so the variance of its time
 * grows by drift_s per second (a Poisson process, or any random walk). */
double drift_wait_s(double drift_s, double compute_s, int num_ranks);

#endif
