/* sim/exchange/robust_rule.h - one rule that replaces the mean of the ranks' gradients. */
#ifndef SIM_EXCHANGE_ROBUST_RULE_H
#define SIM_EXCHANGE_ROBUST_RULE_H

#include <stdbool.h>

enum robust_kind {
    ROBUST_MEDIAN,    /* median of each element */
    ROBUST_TRIMMED,   /* mean of each element without the f largest and the f smallest */
    ROBUST_KRUM,      /* the gradient that is closest to its n - f - 2 nearest */
    ROBUST_GEOMEDIAN, /* the point with the least sum of distances to all gradients */
    NUM_ROBUST_KINDS
};

struct robust_rule {
    enum robust_kind kind;
    /* Whether the rule weighs whole gradients by the distances between them; otherwise it combines
     * each element separately. */
    bool weighs_ranks;
    const char *condition; /* such as "n > 2 f" */
    /* The largest number of hostile ranks among `num_ranks` that the condition admits; negative if
     * it admits not even 0. */
    int (*most_hostile)(int num_ranks);
    /* kappa: for any values of the f hostile ranks, the squared distance of the result from the
     * honest ranks' mean is at most kappa times the honest ranks' variance, the mean of their
     * squared distances from their mean. */
    double (*error)(int num_ranks, int hostile);
};

#endif
