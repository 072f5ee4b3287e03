/* sim/exchange/robust.h - rules that replace the mean of the ranks' gradients, so that some ranks
 * may send anything.
 *
 * Every rank applies the rule to an equal part of the elements of all gradients and sends the
 * result to all: as many bytes as all-reduce. Hostile ranks falsify their own gradients; the parts
 * that they compute for others are taken to be right, as the papers take their server. */
#ifndef SIM_EXCHANGE_ROBUST_H
#define SIM_EXCHANGE_ROBUST_H

#include "sim/exchange/exchange.h"

enum robust_kind {
    ROBUST_MEDIAN,    /* of each element */
    ROBUST_TRIMMED,   /* mean of each element without the f largest and the f smallest */
    ROBUST_KRUM,      /* the gradient that is closest to its n - f - 2 nearest */
    ROBUST_GEOMEDIAN, /* the point with the least sum of distances to all gradients */
    NUM_ROBUST_KINDS
};

struct robust_rule {
    enum robust_kind kind;
    /* Whether it weighs whole gradients by the distances between them; otherwise each element is
     * combined by itself. */
    bool weighs_ranks;
    const char *condition; /* "n > 2 f" */
    /* Most hostile ranks of `num_ranks` that the condition admits; negative: not even 0. */
    int (*most_hostile)(int num_ranks);
    /* kappa: for any values of the f hostile ranks, the squared distance of the result from the
     * honest ranks' mean is at most kappa times the honest ranks' variance, the mean of their
     * squared distances from their mean. */
    double (*error)(int num_ranks, int hostile);
};

/* The f of an exchange: the given number, or the most that the rule admits. */
int robust_hostile(const struct exchange *exchange, int num_ranks);
/* kappa at that f; 0 for methods without a rule, and where the rule is the mean. */
double robust_error(const struct exchange *exchange, int num_ranks);
/* Bytes of the squared distances between all ranks that a rule with `weighs_ranks` sums. */
double robust_distance_bytes(int num_ranks);

/* Device memory traffic in bytes of one rank that applies the rule to its part of `num_ranks`
 * gradients. */
double robust_traffic_bytes(const struct exchange *exchange, const struct exchange_load *load,
                            int num_ranks);

#endif
