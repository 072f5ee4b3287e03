/* calibration/score/choice.h - what choosing by predictions loses, on measured runs.
 *
 * A stratum is the runs of one model, batch and number of GPUs that differ in their plan. The plan
 * of least predicted time is chosen; its regret is log(its measured time / the least measured). How
 * likely it is the fastest is stated by joint draws (sim/engine/chances.h), and held against
 * whether it was: the Brier score is the mean square of the difference, 0 at best, 0.25 of a coin.
 */
#ifndef CALIBRATION_SCORE_CHOICE_H
#define CALIBRATION_SCORE_CHOICE_H

#include "calibration/score/score.h"

/* Over the strata of a source that have four plans or more. */
struct choice {
    const char *source;
    int strata, plans;
    /* share of strata whose chosen plan was measured within CLOSE_CHOICE of the best */
    double close;
    double mean, worst; /* regret */
    double stated;      /* mean chance that the chosen plan is the fastest */
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
