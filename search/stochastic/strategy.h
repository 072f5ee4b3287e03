/* search/stochastic/strategy.h - ways to spend a budget of scores.
 *
 * A strategy asks for scores until the scorer is over; the scorer keeps all points it has met.
 * Given the same stream and tuning it asks for the same points. */
#ifndef SEARCH_STOCHASTIC_STRATEGY_H
#define SEARCH_STOCHASTIC_STRATEGY_H

#include "search/stochastic/scorer.h"

/* Differences of scores are in logarithms: 0.01 is 1 %. */
struct tuning {
    double start_temperature, end_temperature; /* of annealing, in log score */
    int anneal_scores;   /* scores of one annealing, or the budget if that is less; then it restarts
                          */
    int patience_scores; /* evolution restarts after this many scores without a gain */
    double learning_rate; /* REINFORCE: rate applied to a batch's mean gradient */
    double entropy_weight;
    int policy_patience_scores; /* REINFORCE restarts after this many scores without a gain */
    int batch;                  /* points between two updates of the policy */
};
struct tuning tuning_default(void);

/* Add yours to `strategies` in strategies.c; the bench compares all. */
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
