/* search/stochastic/strategy.h - ways to spend a budget of scores.
 *
 * A strategy asks the scorer for scores until the budget is spent. The scorer keeps all points that
 * it has seen. With the same random stream and tuning, a strategy asks for the same points. */
#ifndef SEARCH_STOCHASTIC_STRATEGY_H
#define SEARCH_STOCHASTIC_STRATEGY_H

#include "search/stochastic/scorer.h"

/* Settings of the strategies. Differences of scores are in logarithms: 0.01 is 1 %. */
struct tuning {
    double start_temperature, end_temperature; /* temperatures of annealing, in log score */
    int anneal_scores;    /* annealing restarts after this many scores, or after the whole budget if
                           * that is less */
    int patience_scores;  /* evolution restarts after this many scores without a gain */
    double learning_rate; /* REINFORCE: rate applied to a batch's mean gradient */
    double entropy_weight;
    int policy_patience_scores; /* REINFORCE restarts after this many scores without a gain */
    int batch;                  /* points between two updates of the policy */
};
struct tuning tuning_default(void);

/* A strategy. To add one, extend `strategies` in strategies.c; the benchmark compares all. */
struct strategy {
    const char *name;
    const char *source;
    void (*run)(struct scorer *scorer, const struct tuning *tuning, struct random *rng);
};
extern const struct strategy strategies[];
extern const int num_strategies;
const struct strategy *strategy_find(const char *name);

void anneal(struct scorer *scorer, const struct tuning *tuning, struct random *rng);
void evolve(struct scorer *scorer, const struct tuning *tuning, struct random *rng);
void reinforce(struct scorer *scorer, const struct tuning *tuning, struct random *rng);
void draw_at_random(struct scorer *scorer, const struct tuning *tuning, struct random *rng);

#endif
