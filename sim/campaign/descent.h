/* sim/campaign/descent.h - the loss of a training run, step by step, as the theory of
 * convergence.h has it before the rate is tuned.
 *
 * At the rate g_t in step t, with S the sum of the rates before it, n ranks have the loss
 *
 *     least + gap (1 + S / (power reach))^-power + g_t noise F / n + g_t^2 apart A^2
 *
 * What is left of the start falls as descent on a smooth function does: at least as 1 / (1 + S /
 * reach) where that is convex (power 1: Nesterov 2004, theorem 2.1.14), exponentially where it is
 * strongly so (power without end), more slowly on text. The second and third term are where noise
 * and disagreement hold the loss at this rate (Bottou, Curtis and Nocedal 2018, theorem 4.6;
 * Koloskova et al. 2020, theorem 2); F and A^2 are convergence_noise_factor and convergence_apart,
 * and `apart` is `mixing` or, of error feedback, `memory`. */
#ifndef SIM_CAMPAIGN_DESCENT_H
#define SIM_CAMPAIGN_DESCENT_H

#include "sim/campaign/convergence.h"

struct descent {
    double least; /* loss that there is no way below */
    double gap;   /* of the loss of the first step above it */
    double reach; /* sum of rates by which the gap falls to 1/e or, with power 1, to a half */
    double power;
    double noise;          /* v: of one rank's gradients */
    double mixing, memory; /* k */
};

/* One run: the rate of each step, rate / (1 + step / fades), fades 0: constant; and its exchange.
 */
struct descent_run {
    double rate, fades;
    int num_ranks;
    double noise_factor, apart;
    bool is_memory; /* what is apart is messages, not ranks */
};
struct descent_run descent_run_of(const struct exchange_use *use, double heterogeneity, double rate,
                                  double fades);

/* Before step `step`, from 0. */
double descent_loss(const struct descent *descent, const struct descent_run *run, double step);

/* Steps until the loss is no more than so much; HUGE_VAL: beyond 2^40. */
double descent_steps_to(const struct descent *descent, const struct descent_run *run, double loss);

/* The scales of transients that follow: r k^2 / v^3, with r = gap x reach. Without noise there is
 * no linear speed-up to arrive at, and they are HUGE_VAL. */
struct convergence descent_convergence(const struct descent *descent, double heterogeneity);

#endif
