/* sim/campaign/convergence.h - how many steps a method of exchange needs beside all-reduce.
 *
 * Descent at the rate g over T steps ends with an error of
 *
 *     r / (g T)  +  g v / n  +  g^2 k A^2
 *
 * (Koloskova et al. 2020, "A unified theory of decentralized SGD", lemma 15, of which Chen et al.
 * 2021, theorem 2, is a case): what is left of the start; the noise of stochastic gradients of
 * variance sigma^2 ~ v, which the mean of n ranks divides by n; and what ranks that are apart, or
 * messages that leave something out, do to the gradients. A is the method's part in that:
 * convergence_apart. The best rate of all-reduce, which has no third term, is sqrt(r n / (v T)):
 * the error falls as sqrt(r v / (n T)), so n ranks need sigma^2 / (n eps^2) steps to an error eps
 * (linear speed-up). At that rate the third term is below the second from step
 *
 *     (r k^2 / v^3)  n^3  A^4
 *
 * on: the transient, whose first factor is a scale that no theorem knows. What is exact has none.
 */
#ifndef SIM_CAMPAIGN_CONVERGENCE_H
#define SIM_CAMPAIGN_CONVERGENCE_H

#include "sim/exchange/exchange.h"

/* What the theorems leave open. */
struct convergence {
    double mixing_scale; /* r k^2 / v^3 of averaging in part, or now and then, in steps */
    double memory_scale; /* of error feedback */
    /* Share of what makes one rank's gradients differ from the mean that is its data's and stays,
     * not its draw's: b^2 / (sigma^2 + b^2). 0: data are shuffled. */
    double heterogeneity;
};

/* Scales as large as published runs allow, whose transients were over by their end; of data that
 * were shuffled. */
extern const struct convergence convergence_published;

/* An exchange as a run has it. */
struct exchange_use {
    const struct exchange *exchange;
    const struct exchange_load *load; /* what the bounds of compressors are of */
    int num_ranks;
    int group;     /* ranks that sum first and act as one in what follows */
    double period; /* steps from one average of all to the next, in the mean; 0: it has no such */
};
/* The use of an exchange whose period stays as it is. A group of a node counts as one rank, as its
 * ranks are not known here. */
struct exchange_use exchange_use_of(const struct exchange *exchange,
                                    const struct exchange_load *load, int num_ranks);

/* sigma^2 / (n eps^2), rounded up. */
double convergence_steps_to(double sigma, double eps, int num_ranks);

/* How many times the noise, and so the steps, of all-reduce remain once the transient is over; 1 of
 * most. HUGE_VAL of what does not reach the optimum.
 *
 *   unbiased  1 + omega / (1 - heterogeneity): a message adds omega times a rank's own second
 *             moment, which at the optimum is that of its noise and of its data's difference, to
 *             the noise alone (Alistarh et al. 2017, theorem 3.4)
 *   EF21      n / delta^3: no linear speed-up (Fatkhullin et al. 2021; Huang et al. 2022, table 1)
 */
double convergence_noise_factor(const struct convergence *convergence,
                                const struct exchange_use *use);

/* A^2: 0 of what keeps ranks alike and leaves nothing out.
 *
 *   gossip, PGA, Local SGD   beta^2 C (1 - h + h D), h the heterogeneity: ranks come apart by
 *       noise, of which sum_k beta^2k is left (at most C), and by their data, whose pull adds up
 *       (C D). C = sum of beta^k for k < H, D = min(H, 1 / (1 - beta)); gossip: H is infinite;
 *       local: beta is 1 (Chen et al. 2021, theorem 2 and table 2). It gives transients of
 *       n^3 beta^4 C^2 where h is 0, and n^3 beta^4 C^2 D^2 where it is 1.
 *   error feedback           (1 - delta) / delta^2: each message leaves (1 - delta) of what is to
 *       be sent, so what is on its way is a sum of about 1 / delta gradients (Stich, Cordonnier and
 *       Jaggi 2018, lemma 3.2, squared): transients of n^3 (1 - delta)^2 / delta^4 (Huang et al.
 *       2022, table 1: MEM-SGD)
 *   others                   0; NEOLITHIC's transient has another order, see below
 *
 * beta: sim/exchange/mixing.h. Ranks that act as one count as one. */
double convergence_apart(const struct convergence *convergence, const struct exchange_use *use);

/* Steps until a method converges as all-reduce does. NEOLITHIC's error has r / (g delta T) in place
 * of the third term, so it is over when 1 / (delta T) is below sqrt(1 / (n T)): n / delta^2 (Huang
 * et al. 2022, theorem 3); here less what delta = 1 would be, as for the others. */
double convergence_transient_steps(const struct convergence *convergence,
                                   const struct exchange_use *use);

/* Steps to where all-reduce is after so many, at most by the theorems; HUGE_VAL: never. */
double convergence_steps(const struct convergence *convergence, const struct exchange_use *use,
                         double all_reduce_steps);

/* The evidence that a number of steps rests on. */
enum steps_basis {
    STEPS_EXACT,     /* the same sums as all-reduce's */
    STEPS_FITTED,    /* the theorems' orders by constants of one's own runs */
    STEPS_PUBLISHED, /* published runs that ended where all-reduce's did, after as many steps */
    STEPS_BOUND,     /* nothing but the theorems' worst case */
};
extern const char *const steps_basis_names[]; /* "exact" ... */

/* Steps to where all-reduce is after `all_reduce_steps`. The theorems say by when a method is no
 * longer behind. The published runs were as long as that, and ended where all-reduce's did after as
 * many steps: a use whose transient is over by the end of its run is taken for one of them, and so
 * is one that compresses no more than a published run, on no more ranks. */
struct steps_outlook {
    enum steps_basis basis;
    const char *source; /* who ran it; "" of STEPS_EXACT and STEPS_BOUND */
    double steps;       /* to go by: expected, or most_steps where nothing but that is known */
    double most_steps;  /* convergence_steps */
};
struct steps_outlook convergence_outlook(const struct convergence *convergence,
                                         const struct exchange_use *use, double all_reduce_steps);

#endif
