/* sim/campaign/convergence.h - how many steps a method of exchange needs compared with all-reduce.
 *
 * Descent at learning rate g over T steps ends with an error of
 *
 *     r / (g T)  +  g v / n  +  g^2 k A^2
 *
 * (Koloskova et al. 2020, "A unified theory of decentralized SGD", lemma 15, of which Chen et al.
 * 2021, theorem 2, is a special case). The first term is what is left of the initial error. The
 * second is the noise of stochastic gradients, of variance sigma^2 ~ v, which averaging over n
 * ranks divides by n. The third is the error in the gradients when the ranks' weights differ or
 * messages leave something out; convergence_apart gives the method's factor A^2. All-reduce has no
 * third term, and its best rate is sqrt(r n / (v T)): the error falls as sqrt(r v / (n T)), so n
 * ranks need sigma^2 / (n eps^2) steps to an error eps (linear speed-up). At that rate the third
 * term is below the second from step
 *
 *     (r k^2 / v^3)  n^3  A^4
 *
 * on. Until then lasts the transient; its first factor is a scale that no theorem gives. Exact
 * methods have no transient. */
#ifndef SIM_CAMPAIGN_CONVERGENCE_H
#define SIM_CAMPAIGN_CONVERGENCE_H

#include "sim/exchange/exchange.h"

/* The constants that the theorems leave open. */
struct convergence {
    double mixing_scale; /* r k^2 / v^3 of partial or periodic averaging, in steps */
    double memory_scale; /* of error feedback */
    /* b^2 / (sigma^2 + b^2): of the variance of one rank's gradients around the mean, the share b^2
     * that comes from its own data and persists; the rest, sigma^2, is sampling noise. 0: data are
     * shuffled. */
    double heterogeneity;
};

/* The largest scales that agree with published runs, whose transients were over by their end; their
 * data were shuffled. */
extern const struct convergence convergence_published;

/* An exchange as a run uses it. */
struct exchange_use {
    const struct exchange *exchange;
    const struct exchange_load *load; /* the load that the compressors' bounds are computed for */
    int num_ranks;
    int group;     /* ranks that sum first and then act as one */
    double period; /* mean number of steps between averages over all ranks; 0: there are none */
};
/* The use of an exchange with a fixed period. A group without a given size counts as one rank, as
 * the ranks of a node are not known here. */
struct exchange_use exchange_use_of(const struct exchange *exchange,
                                    const struct exchange_load *load, int num_ranks);

/* sigma^2 / (n eps^2), rounded up. */
double convergence_steps_to(double sigma, double eps, int num_ranks);

/* The factor on all-reduce's noise, and so on its steps, that remains after the transient; 1 for
 * most methods, HUGE_VAL for those that do not reach the optimum.
 *
 *   unbiased  1 + omega / (1 - heterogeneity): compression adds omega times a rank's second
 *             moment (at the optimum, that of its noise and of its data's deviation) to
 *             the noise alone (Alistarh et al. 2017, theorem 3.4)
 *   robust    HUGE_VAL: the rule's result is off the mean by kappa sigma^2 at most, whatever the
 *             step, and no rule does better than f / (n - 2 f) sigma^2 (Allouah et al. 2023,
 *             proposition 6). A run that averages its gradients over time (momentum before the
 * rule) does better (Karimireddy, He and Jaggi 2021), but ranks send gradients here. 1 for the
 *             trimmed mean of f = 0, which is the mean.
 *   EF21      n / delta^3: no linear speed-up (Fatkhullin et al. 2021; Huang et al. 2022, table 1)
 */
double convergence_noise_factor(const struct convergence *convergence,
                                const struct exchange_use *use);

/* A^2; 0 for methods that keep ranks equal and leave nothing out.
 *
 *   gossip, PGA, Local SGD   beta^2 C (1 - h + h D), h the heterogeneity: ranks diverge by
 *       noise, of which sum_k beta^2k is left (at most C), and by their own data, whose effects
 *       add up
 *       (C D). C = sum of beta^k for k < H, D = min(H, 1 / (1 - beta)); for gossip H is
 *       infinite;
 *       for Local SGD beta is 1 (Chen et al. 2021, theorem 2 and table 2). It gives transients
 *       of
 *       n^3 beta^4 C^2 where h is 0, and n^3 beta^4 C^2 D^2 where it is 1.
 *   error feedback           (1 - delta) / delta^2: each message leaves out (1 - delta) of what is
 * to be sent, so about 1 / delta gradients are pending (Stich, Cordonnier and Jaggi 2018,
 * lemma 3.2, squared): transients of n^3 (1 - delta)^2 / delta^4 (Huang et al. 2022, table 1:
 * MEM-SGD) others                   0; NEOLITHIC's transient has another order, see below
 *
 * Late gradients (async) have A^2 = tau / n, tau the steps by which they are late, and so a
 * transient of n tau^2, after the tau steps in which nothing arrives (Stich and Karimireddy 2020,
 * theorem 9: sigma^2 / (n eps^2) + tau / eps). It holds for learning rates below 1 / (4 L tau): a
 * rate that is close to diverging without delay diverges with it.
 *
 * beta: sim/exchange/mixing.h. Ranks that act as one count as one. */
double convergence_apart(const struct convergence *convergence, const struct exchange_use *use);

/* Steps until a method converges as all-reduce does. NEOLITHIC's error has r / (g delta T) in place
 * of the third term, so it is over when 1 / (delta T) is below sqrt(1 / (n T)): n / delta^2 (Huang
 * et al. 2022, theorem 3); the value at delta = 1 is subtracted, as for the others. */
double convergence_transient_steps(const struct convergence *convergence,
                                   const struct exchange_use *use);

/* Steps to reach what all-reduce reaches in `all_reduce_steps`, as an upper bound by the theorems;
 * HUGE_VAL: never. */
double convergence_steps(const struct convergence *convergence, const struct exchange_use *use,
                         double all_reduce_steps);

/* The evidence for a number of steps. */
enum steps_basis {
    STEPS_EXACT,     /* the same sums as all-reduce's */
    STEPS_FITTED,    /* the theorems' orders with constants fitted on the user's runs */
    STEPS_PUBLISHED, /* published runs that matched all-reduce's accuracy in the same steps */
    STEPS_BOUND,     /* the theorems' worst case alone */
};
extern const char *const steps_basis_names[]; /* "exact" ... */

/* Steps to reach what all-reduce reaches in `all_reduce_steps`. The theorems bound the step by
 * which a method has caught up. Published runs matched all-reduce's accuracy in the same number of
 * steps. A use counts as such a run when its transient is over by the end of the run, or when it
 * compresses no more than a published run on no more ranks. */
struct steps_outlook {
    enum steps_basis basis;
    const char *source; /* who ran it; "" for STEPS_EXACT and STEPS_BOUND */
    double steps;       /* the expected number, or most_steps when only the bound is known */
    double most_steps;  /* convergence_steps */
};
struct steps_outlook convergence_outlook(const struct convergence *convergence,
                                         const struct exchange_use *use, double all_reduce_steps);

#endif
