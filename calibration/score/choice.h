/* calibration/score/choice.h - the time lost on measured runs if plans are chosen by their
 * predictions.
 *
 * A stratum is the runs of one model, batch and number of GPUs that differ in their plan. The plan
 * with the shortest predicted time is chosen. Its regret is log(its measured time / the shortest
 * measured time). The probability that it is the fastest comes from random draws
 * (sim/engine/chances.h) and is compared with whether it was: the Brier score is the mean square of
 * the difference, 0 at best, 0.25 for always saying 50 %. */
#ifndef CALIBRATION_SCORE_CHOICE_H
#define CALIBRATION_SCORE_CHOICE_H

#include "calibration/score/score.h"

/* Statistics over the strata of one source (publication) that have four plans or more. */
struct choice {
    const char *source;
    int strata, plans;
    /* share of strata whose chosen plan was measured within CLOSE_CHOICE of the best */
    double close;
    double mean, worst; /* regret */
    double stated;      /* mean predicted probability that the chosen plan is the fastest */
    double was;         /* share of strata in which it was the fastest */
    double brier;
};
#define CLOSE_CHOICE 0.02
struct choices {
    struct choice *at; /* in the order of scores->sources */
    int count;
};

/* The array lives in the arena. */
struct choices runs_choose(const struct run_case *cases, const struct run_prediction *predictions,
                           const struct scores *scores, struct arena *arena);

#endif
