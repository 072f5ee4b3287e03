/* calibration/score/preference.h - whether predictions rank plans in the order of their measured
 * times.
 *
 * A stratum is a set of runs on one node that differ only in their plan. Its held-out plans are
 * compared when there are at least four. */
#ifndef CALIBRATION_SCORE_PREFERENCE_H
#define CALIBRATION_SCORE_PREFERENCE_H

#include "calibration/score/score.h"

/* Statistics over the strata of one source (publication). */
struct preference {
    const char *source;
    int strata, plans;
    double tau;       /* median over strata of Kendall's tau: 1 same order, -1 reversed order */
    double tau_p10;   /* 10th percentile of tau over strata */
    double near_best; /* share of strata whose chosen plan was measured within 3 % of the best */
    /* 90th percentile over strata of log(measured time of the chosen plan / that of the best
     * plan) */
    double loss;
};
struct preferences {
    struct preference *at; /* in the order of scores->sources */
    int count;
};

/* The array lives in the arena. */
struct preferences runs_prefer(const struct run_case *cases,
                               const struct run_prediction *predictions,
                               const struct scores *scores, struct arena *arena);

/* (pairs in the same order in x and y - pairs in opposite order) / all pairs; a tie is neither. */
double kendall_tau(const double *x, const double *y, int n);

#endif
