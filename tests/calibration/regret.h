/* tests/calibration/regret.h - how close strategies come to a known optimum, score by score, for
 * benches. */
#ifndef TESTS_CALIBRATION_REGRET_H
#define TESTS_CALIBRATION_REGRET_H

#include "search/stochastic/strategy.h"

/* A run: after n scores, the best that fits over the optimum, less 1 (HUGE_VAL while nothing fits),
 * and the time that its thread has run, which is wall time where no other wants the core. Arrays of
 * budget + 1. */
struct regret_run {
    int budget;
    double *regret, *core_s;
};

/* A strategy on a search whose optimum is known, from one seed after another. */
struct regret_case {
    const struct search *search;
    double optimum_s;
};

/* In the arena. */
struct regret_run regret_of(const struct regret_case *of, const struct strategy *strategy,
                            const struct tuning *tuning, bool is_masked, int budget, uint64_t seed,
                            uint64_t stream, struct arena *arena);
/* Two runs taking turns, the first beginning. */
struct regret_run regret_of_both(const struct regret_run *a, const struct regret_run *b,
                                 struct arena *arena);

/* Scores until the regret is at most `within`; HUGE_VAL: never. */
double regret_scores_to(const struct regret_run *run, double within);
double regret_at_time(const struct regret_run *run, double core_s);

/* The value that `share` of them do not exceed, between neighbours where it falls between. Sorts.
 */
double quantile(double *values, int count, double share);

/* 95 % interval of a probability, from successes (Wilson, JASA 22, 1927). */
struct interval {
    double low, high;
};
struct interval wilson(int successes, int count);

#endif
