/* Simulated annealing. A point is a candidate plan, encoded as one digit for each searched axis
 * (search/stochastic/encoding.h). */
#include "search/stochastic/strategy.h"

#include <math.h>

/* A worse point is taken with probability exp(-(log score' - log score) / temperature). */
static bool accepts(struct random *rng, double score, double next, double temperature)
{
    double worse = log(next) - log(score);
    return !(worse > 0) || random_unit(rng) < exp(-worse / temperature);
}

/* Starts from a new random point; the temperature falls by a constant factor per score. Returns
 * false when the search must stop. */
static bool anneal_once(struct scorer *scorer, const struct tuning *tuning, struct random *rng)
{
    struct point at, next;
    double score, next_score;
    if (scorer_start(scorer, rng, &at, &score) != SCORED)
        return false;
    double ratio = tuning->end_temperature / tuning->start_temperature;
    double length = fmin(tuning->anneal_scores, scorer->budget);
    for (int i = 1; i < length; i++) {
        double temperature = tuning->start_temperature * pow(ratio, i / length);
        enum verdict verdict = scorer_step(scorer, rng, &at, &next, &next_score);
        if (verdict != SCORED)
            return verdict == OUT;
        if (accepts(rng, score, next_score, temperature)) {
            at = next;
            score = next_score;
        }
    }
    return true;
}

void anneal(struct scorer *scorer, const struct tuning *tuning, struct random *rng)
{
    while (anneal_once(scorer, tuning, rng))
        ;
}
