#include "base/length.h"
#include "search/stochastic/strategy.h"

#include <string.h>

const struct strategy strategies[] = {
    { "annealing", "Kirkpatrick, Gelatt and Vecchi, Science 220, 1983", anneal },
    { "evolution", "(1+1)-ES: Rechenberg 1973; Droste, Jansen and Wegener 2002", evolve },
    { "reinforce", "Williams, Machine Learning 8, 1992", reinforce },
    { "random", "Bergstra and Bengio, JMLR 13, 2012", draw_at_random },
};
const int num_strategies = LENGTH(strategies);

const struct strategy *strategy_find(const char *name)
{
    for (int i = 0; i < num_strategies; i++)
        if (strcmp(strategies[i].name, name) == 0)
            return &strategies[i];
    return NULL;
}

/* The best of the settings that tests/bench/bench_tuning.c tries. */
struct tuning tuning_default(void)
{
    return (struct tuning){ .start_temperature = 0.3,
                            .end_temperature = 0.003,
                            .anneal_scores = 3000,
                            .patience_scores = 100,
                            .learning_rate = 0.3,
                            .entropy_weight = 0.1,
                            .policy_patience_scores = 200,
                            .batch = 16 };
}

void draw_at_random(struct scorer *scorer, const struct tuning *tuning, struct random *rng)
{
    (void)tuning;
    struct point point;
    double score;
    while (scorer_start(scorer, rng, &point, &score) == SCORED)
        ;
}
