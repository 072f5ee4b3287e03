/* sim/campaign/descent.h - the loss of a training run, step by step, by the theory of convergence.h
 * at given learning rates.
 *
 * At learning rate g_t in step t, with S the sum of the rates before it, n ranks have the loss
 *
 *     least + gap (1 + S / (power reach))^-power + g_t noise F / n + g_t^2 k A^2
 *
 * The initial gap falls as descent on a smooth function does: at least as fast as 1 / (1 + S /
 * reach) on a convex one (power 1: Nesterov 2004, theorem 2.1.14), exponentially on a strongly
 * convex one (power infinite), more slowly on text. The last two terms are the loss that gradient
 * noise and differing weights leave at this learning rate (Bottou, Curtis and Nocedal 2018, theorem
 * 4.6; Koloskova et al. 2020, theorem 2). F and A^2 are convergence_noise_factor and
 * convergence_apart; k is `memory` for error feedback and `mixing` for the other methods. */
#ifndef SIM_CAMPAIGN_DESCENT_H
#define SIM_CAMPAIGN_DESCENT_H

#include "sim/campaign/convergence.h"

struct descent {
    double least; /* the least possible loss */
    double gap;   /* initial loss minus `least` */
    /* S at which the gap has fallen to 1/e (power infinite) or to a half (power 1) */
    double reach;
    double power;
    double noise;          /* noise of one rank's gradients */
    double mixing, memory; /* `mixing`: k for averaging; `memory`: k for error feedback */
};

/* One run: its exchange and its learning rate, rate / (1 + step / fades); constant if `fades` is
 * 0. */
struct descent_run {
    double rate, fades;
    int num_ranks;
    double noise_factor, apart;
    bool is_memory; /* whether the exchange uses error feedback */
};
struct descent_run descent_run_of(const struct exchange_use *use, double heterogeneity, double rate,
                                  double fades);

/* The loss before step `step`; the first step is 0. */
double descent_loss(const struct descent *descent, const struct descent_run *run, double step);

/* Steps until the loss is at most `loss`; HUGE_VAL if that takes more than 2^40. */
double descent_steps_to(const struct descent *descent, const struct descent_run *run, double loss);

/* The scales r k^2 / v^3 of the transients, with r = gap x reach and v = noise. Without noise they
 * are HUGE_VAL, as more ranks then do not reduce the steps. */
struct convergence descent_convergence(const struct descent *descent, double heterogeneity);

#endif
