/* sim/cost/straggler.h - synchronous training runs at the speed of its slowest chip. */
#ifndef SIM_COST_STRAGGLER_H
#define SIM_COST_STRAGGLER_H

/* How many times longer compute takes on the slowest of `num_gpus` chips than on a measured node of
 * eight, when sustained speed is normal with relative standard deviation `spread`. */
double straggler_slowdown(double spread, int num_gpus);

/* Expected maximum of n standard normals (Blom 1958); 0 for one. */
double expected_maximum(double n);

#endif
