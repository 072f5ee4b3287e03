/* sim/campaign/convergence.h - how many steps a method of exchange needs compared with all-reduce.
 *
 * Descent at learning rate g over T steps ends with an error of
 *
 *     r / (g T)  +  g v / n  +  g^2 k A^2
 *
 * (Koloskova et al. 2020, "A unified theory of decentralized SGD", lemma 15, of which Chen et al.
 * 2021, theorem 2, is a special case). r, v and k are constants of the problem: r measures the
 * initial error, v the variance sigma^2 of one rank's stochastic gradients, k the smoothness. The
 * first term is the part of the initial error that is left. The second is gradient noise, which
 * averaging over n ranks divides by n. The third is the gradients' error if the ranks' weights
 * differ or messages are compressed; convergence_apart gives the method's factor A^2. All-reduce
 * has no third term, and its best learning rate is sqrt(r n / (v T)): the error falls as sqrt(r v /
 * (n T)), so n ranks need sigma^2 / (n eps^2) steps to an error eps (linear speed-up). At that rate
 * the third term is below the second from step
 *
 *     (r k^2 / v^3)  n^3  A^4
 *
 * on. The steps before that are the transient. No theorem gives the scale r k^2 / v^3. Methods that
 * compute all-reduce's mean exactly have no transient. */
#ifndef SIM_CAMPAIGN_CONVERGENCE_H
#define SIM_CAMPAIGN_CONVERGENCE_H

#include "sim/exchange/exchange.h"

/* Constants that the theorems do not give; they are fitted. */
struct convergence {
    double mixing_scale; /* r k^2 / v^3 for gossip and periodic averaging, in steps */
    double memory_scale; /* r k^2 / v^3 for error feedback, in steps */
    /* b^2 / (sigma^2 + b^2): the share of the variance of one rank's gradients that comes from its
     * own data (b^2); the rest, sigma^2, is sampling noise. 0 for shuffled data. */
    double heterogeneity;
};

/* The largest scales under which the transients of the published runs end within those runs. Their
 * data were shuffled. */
extern const struct convergence convergence_published;

/* An exchange with the load, the groups and the period of one run. */
struct exchange_use {
    const struct exchange *exchange;
    /* the tensors that are exchanged; compressors' bounds depend on them */
    const struct exchange_load *load;
    int num_ranks;
    int group;     /* ranks that sum first and then act as one */
    double period; /* mean number of steps between averages over all ranks; 0: there are none */
};
/* An exchange_use with a fixed period. A group without a given size counts as one rank, as the
 * number of ranks per node is not known here. */
struct exchange_use exchange_use_of(const struct exchange *exchange,
                                    const struct exchange_load *load, int num_ranks);

/* All-reduce's steps to an error `eps`: sigma^2 / (n eps^2), rounded up, n = `num_ranks`. */
double convergence_steps_to(double sigma, double eps, int num_ranks);

/* The factor by which a method needs more steps than all-reduce after the transient, because its
 * gradients are noisier. It is 1 for most methods, and HUGE_VAL if the method never reaches the
 * optimum. omega and delta bound the error of a compressor (struct compressor in
 * sim/exchange/exchange.h), kappa that of a robust rule (sim/exchange/robust_rule.h). Exceptions:
 *
 *   unbiased  1 + omega / (1 - heterogeneity): compression adds omega times the second moment of a
 *             rank's gradients to their variance sigma^2 (Alistarh et al. 2017, theorem 3.4). At
 *             the optimum the second moment is sigma^2 + b^2.
 *   robust    HUGE_VAL: the error of the rule's result is bounded by kappa sigma^2, which does not
 *             fall with more steps. No rule has a bound below f / (n - 2 f) sigma^2 with f hostile
 *             ranks (Allouah et al. 2023, proposition 6). Averaging gradients over time before the
 *             rule would help (Karimireddy, He and Jaggi 2021), but ranks send plain gradients
 *             here. The factor is 1 for the trimmed mean with f = 0, which is the mean.
 *   EF21      n / delta^3: no linear speed-up (Fatkhullin et al. 2021; Huang et al. 2022,
 *             table 1) */
double convergence_noise_factor(const struct convergence *convergence,
                                const struct exchange_use *use);

/* A^2; 0 for methods that keep the ranks' weights equal and send gradients in full.
 *
 *   gossip, PGA, Local SGD   beta^2 C (1 - h + h D), h the heterogeneity. H is the period, C the
 *       sum of beta^k for k < H, and D = min(H, 1 / (1 - beta)). For gossip H is infinite, for
 *       Local SGD beta is 1. Ranks diverge by noise, which adds up to at most C, and by their own
 *       data, which adds up to C D (Chen et al. 2021, theorem 2 and table 2). Transients are n^3
 *       beta^4 C^2 for h = 0 and n^3 beta^4 C^2 D^2 for h = 1.
 *   error feedback           (1 - delta) / delta^2. Each message leaves out a share 1 - delta of
 *       the gradient, so about 1 / delta gradients are pending (Stich, Cordonnier and Jaggi 2018,
 *       lemma 3.2, squared). Transients are n^3 (1 - delta)^2 / delta^4 (Huang et al. 2022, table
 *       1: MEM-SGD).
 *   others                   0; NEOLITHIC's transient is in convergence_transient_steps
 *
 * Gradients that are late by tau steps (async) have A^2 = tau / n and so a transient of n tau^2,
 * after the tau steps in which none arrives (Stich and Karimireddy 2020, theorem 9: sigma^2 / (n
 * eps^2) + tau / eps). The theorem holds for learning rates below 1 / (4 L tau), L the smoothness.
 *
 * sim/exchange/mixing.h computes beta. Ranks of one group count as one rank. */
double convergence_apart(const struct convergence *convergence, const struct exchange_use *use);

/* Length of the transient in steps; after it a method's error falls as all-reduce's does.
 * NEOLITHIC's error has r / (g delta T) instead of the third term, so its transient ends when 1 /
 * (delta T) is below sqrt(1 / (n T)), after n / delta^2 steps (Huang et al. 2022, theorem 3). The
 * value at delta = 1 is subtracted: a method that sends everything has no transient. */
double convergence_transient_steps(const struct convergence *convergence,
                                   const struct exchange_use *use);

/* Upper bound by the theorems on the steps to the loss that all-reduce reaches in
 * `all_reduce_steps`; HUGE_VAL if the method never reaches it. */
double convergence_steps(const struct convergence *convergence, const struct exchange_use *use,
                         double all_reduce_steps);

/* Where a number of steps comes from. */
enum steps_basis {
    STEPS_EXACT,     /* the same sums as all-reduce's */
    STEPS_FITTED,    /* the theorems, with constants fitted on the user's runs */
    STEPS_PUBLISHED, /* published runs that matched all-reduce's accuracy in the same steps */
    STEPS_BOUND,     /* the theorems' worst case alone */
};
extern const char *const steps_basis_names[]; /* "exact", "fitted", "published", "bound" */

/* Expected steps to the loss that all-reduce reaches in `all_reduce_steps`. The theorems give an
 * upper bound. Published runs matched all-reduce's accuracy in the same number of steps; that
 * number is expected when the transient ends within the run, or when a published run compressed at
 * least as strongly on at least as many ranks. */
struct steps_outlook {
    enum steps_basis basis;
    const char *source; /* authors of the published run; "" for STEPS_EXACT and STEPS_BOUND */
    double steps;       /* the expected number, or most_steps when only the bound is known */
    double most_steps;  /* convergence_steps */
};
struct steps_outlook convergence_outlook(const struct convergence *convergence,
                                         const struct exchange_use *use, double all_reduce_steps);

#endif
