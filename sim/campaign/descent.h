/* sim/campaign/descent.h - the loss of a training run, step by step, by the theory of convergence.h
 * at a given learning rate.
 *
 * At learning rate g_t in step t, with S the sum of the rates before it, n ranks have the loss
 *
 *     least + gap (1 + S / (power reach))^-power + g_t noise F / n + g_t^2 apart A^2
 *
 * The initial gap falls as descent on a smooth function does: at least as 1 / (1 + S / reach) on a
 * convex one (power 1: Nesterov 2004, theorem 2.1.14), exponentially on a strongly convex one
 * (power infinite), more slowly on text. The noise and disagreement terms are the floor that they
 * set at this rate (Bottou, Curtis and Nocedal 2018, theorem 4.6; Koloskova et al. 2020, theorem
 * 2); F and A^2 are convergence_noise_factor and convergence_apart, and `apart` is `mixing` or, for
 * error feedback, `memory`. */
#ifndef SIM_CAMPAIGN_DESCENT_H
#define SIM_CAMPAIGN_DESCENT_H

#include "sim/campaign/convergence.h"

struct descent {
    double least; /* the least possible loss */
    double gap;   /* initial loss minus `least` */
    double
        reach; /* sum of rates after which the gap has fallen to 1/e or, with power 1, to a half */
    double power;
    double noise;          /* v: noise of one rank's gradients */
    double mixing, memory; /* k */
};

/* One run: its learning rates, rate / (1 + step / fades) (fades 0: constant), and its exchange. */
struct descent_run {
    double rate, fades;
    int num_ranks;
    double noise_factor, apart;
    bool is_memory; /* the disagreement comes from error feedback, not from differing weights */
};
struct descent_run descent_run_of(const struct exchange_use *use, double heterogeneity, double rate,
                                  double fades);

/* The loss before step `step`, from 0. */
double descent_loss(const struct descent *descent, const struct descent_run *run, double step);

/* Steps until the loss is at most `loss`; HUGE_VAL: beyond 2^40. */
double descent_steps_to(const struct descent *descent, const struct descent_run *run, double loss);

/* The transients' scales that follow: r k^2 / v^3, with r = gap x reach. Without noise there is no
 * linear speed-up to reach, and the scales are HUGE_VAL. */
struct convergence descent_convergence(const struct descent *descent, double heterogeneity);

#endif
