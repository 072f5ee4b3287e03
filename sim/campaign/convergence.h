/* sim/campaign/convergence.h - how many steps a method of exchange needs beside all-reduce.
 *
 * Stochastic gradients of variance sigma^2 on n ranks reach an error eps after about
 * sigma^2 / (n eps^2) steps (linear speed-up, sigma / sqrt(n T)) once a method's transient is over:
 * the iterations T from which its further terms are below that one. What is exact has none. The
 * orders below are those of the cited theorems, which leave their constants open: `scales`. */
#ifndef SIM_CAMPAIGN_CONVERGENCE_H
#define SIM_CAMPAIGN_CONVERGENCE_H

#include "sim/exchange/exchange.h"

struct convergence {
    double steps;        /* of parallel SGD on the run's batch */
    double mixing_scale; /* of transients of averaging in part, or now and then */
    double memory_scale; /* of transients of error feedback */
};

/* Scales as large as published runs allow, whose transients were over by their end, for so many
 * steps. */
struct convergence convergence_published(double steps);

/* sigma^2 / (n eps^2), rounded up. */
double convergence_steps_to(double sigma, double eps, int num_ranks);

/* How many times the steps of all-reduce remain once the transient is over: 1 + omega of an
 * unbiased compressor, whose noise adds to the gradients'; HUGE_VAL of what does not reach the
 * optimum. EF21 has no linear speed-up: n / delta^3. */
double convergence_noise_factor(const struct exchange *exchange, const struct exchange_load *load,
                                int num_ranks);

/* Iterations until a method converges as all-reduce does, times its scale.
 *
 *   gossip, PGA, Local SGD   n^3 beta^4 C^2 D^2, C = sum of beta^k for k < H, D = min(H,
 * 1/(1-beta)) (Chen et al. 2021, theorem 2; gossip: H is infinite; local: beta is 1) error feedback
 * n^3 (1-delta)^2 / delta^4 (Huang et al. 2022, table 1: MEM-SGD) NEOLITHIC                n
 * (1-delta)^2 / delta^2 (Huang et al. 2022, table 1)
 *
 * beta: sim/exchange/mixing.h. `num_ranks` are those that mix: groups count as one. */
double convergence_transient_steps(const struct convergence *convergence,
                                   const struct exchange *exchange,
                                   const struct exchange_load *load, int num_ranks);

/* Steps to where all-reduce is after convergence->steps; HUGE_VAL: never. */
double convergence_steps(const struct convergence *convergence, const struct exchange *exchange,
                         const struct exchange_load *load, int num_ranks);

#endif
