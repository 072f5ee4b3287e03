/* sim/cost/straggler.h - synchronous training runs at the speed of its slowest chip. */
#ifndef SIM_COST_STRAGGLER_H
#define SIM_COST_STRAGGLER_H

/* How many times longer compute takes on the slowest of `num_gpus` chips than on a measured node of
 * eight, when sustained speed is normal with relative standard deviation `spread`. */
double straggler_slowdown(double spread, int num_gpus);

/* Expected maximum of n standard normals (Blom 1958); 0 for one. */
double expected_maximum(double n);

/* Its inverse: of how many the expected maximum is so large; 1 or more. */
double maximum_count(double expected);

/* What the largest of n standard normals stays below with `probability`, between 0 and 1: of one
 * uniform number, a draw of it. Within 5e-4 (Abramowitz and Stegun 1964, 26.2.23). */
double maximum_quantile(double n, double probability);

/* How much later than the mean the last of n ranks comes to a meeting after each computed for
 * `compute_s`. What disturbs a rank comes at random and independently of the others', so its time's
 * variance grows as the time does, by drift_s a second (a Poisson process, or any random walk). */
double drift_wait_s(double drift_s, double compute_s, int num_ranks);

#endif
