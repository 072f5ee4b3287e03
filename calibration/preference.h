/* calibration/preference.h - whether predictions order plans as measurements do.
 *
 * A stratum is one question: the runs of one node that differ in nothing but their plan. Held-out
 * plans are compared, where there are four or more of them. */
#ifndef CALIBRATION_PREFERENCE_H
#define CALIBRATION_PREFERENCE_H

#include "calibration/score.h"

/* Over the strata of a source. */
struct preference {
    const char *source;
    int strata, plans;
    double tau;       /* median over strata of Kendall's tau: 1 same order, -1 reversed */
    double tau_p10;   /* one stratum in ten is below */
    double near_best; /* share of strata whose chosen plan was measured within 3 % of the best */
    double loss;      /* P90 over strata of log(measured time of the chosen plan / of the best) */
};
struct preferences {
    struct preference *at; /* in the order of scores->sources */
    int count;
};

/* The array lives in the arena. */
struct preferences runs_prefer(const struct run_case *cases,
                               const struct run_prediction *predictions,
                               const struct scores *scores, struct arena *arena);

/* (pairs in the same order - pairs in the other) / pairs; a tie counts for neither. */
double kendall_tau(const double *x, const double *y, int n);

#endif
