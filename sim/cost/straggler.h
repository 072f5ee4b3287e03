/* sim/cost/straggler.h - synchronous training runs at the speed of its slowest chip. */
#ifndef SIM_COST_STRAGGLER_H
#define SIM_COST_STRAGGLER_H

/* How many times longer compute takes on the slowest of `num_gpus` chips than on a measured node of
 * eight, when sustained speed is normal with relative standard deviation `spread`. */
double straggler_slowdown(double spread, int num_gpus);

/* Expected maximum of n standard normals (Blom 1958); 0 for one. */
double expected_maximum(double n);

/* What the largest of n standard normals stays below with `probability`, between 0 and 1: of one
 * uniform number, a draw of it. Within 5e-4 (Abramowitz and Stegun 1964, 26.2.23). */
double maximum_quantile(double n, double probability);

#endif
