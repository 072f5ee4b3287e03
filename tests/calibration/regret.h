/* tests/calibration/regret.h - for benchmarks: the regret of random search strategies after each
 * score (prediction of a plan), against a known optimum. */
#ifndef TESTS_CALIBRATION_REGRET_H
#define TESTS_CALIBRATION_REGRET_H

#include "search/stochastic/strategy.h"

/* A run of a strategy. For each number n of scores it has the regret, which is the best score of a
 * plan that fits in memory / optimum - 1 (HUGE_VAL while no plan fits), and the thread's CPU time,
 * which equals wall time on a free core. Arrays have budget + 1 elements. */
struct regret_run {
    int budget;
    double *regret, *core_s;
};

/* A search with a known optimum, on which strategies run with successive seeds. */
struct regret_case {
    const struct search *search;
    double optimum_s;
};

/* Memory of the result is in the arena. */
struct regret_run regret_of(const struct regret_case *of, const struct strategy *strategy,
                            const struct tuning *tuning, bool is_masked, int budget, uint64_t seed,
                            uint64_t stream, struct arena *arena);
/* Computes the regret of a method that alternates between two runs, beginning with the first. */
struct regret_run regret_of_both(const struct regret_run *a, const struct regret_run *b,
                                 struct arena *arena);

/* Returns the number of scores until the regret is at most `within`, or HUGE_VAL if it never is. */
double regret_scores_to(const struct regret_run *run, double within);
double regret_at_time(const struct regret_run *run, double core_s);

/* The quantile of the values at `share`, interpolated between neighbours. It sorts the values.
 */
double quantile(double *values, int count, double share);

/* The 95 % interval of a probability, from a number of successes (Wilson, JASA 22, 1927). */
struct interval {
    double low, high;
};
struct interval wilson(int successes, int count);

#endif
