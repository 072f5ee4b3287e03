/* An evolution strategy. A point is a candidate plan, encoded as one digit for each searched axis
 * (search/stochastic/encoding.h). */
#include "search/stochastic/strategy.h"

/* A (1+1) evolution strategy: the better of parent and child becomes the next parent. On a tie the
 * child does, so that the strategy can cross plateaus. Returns false when the search must stop. */
static bool evolve_once(struct scorer *scorer, const struct tuning *tuning, struct random *rng)
{
    struct point parent, child;
    double score, child_score;
    if (scorer_start(scorer, rng, &parent, &score) != SCORED)
        return false;
    for (int since_gain = 0; since_gain < tuning->patience_scores; since_gain++) {
        enum verdict verdict = scorer_step(scorer, rng, &parent, &child, &child_score);
        if (verdict != SCORED)
            return verdict == OUT;
        if (child_score > score)
            continue;
        if (child_score < score)
            since_gain = 0;
        parent = child;
        score = child_score;
    }
    return true;
}

void evolve(struct scorer *scorer, const struct tuning *tuning, struct random *rng)
{
    while (evolve_once(scorer, tuning, rng))
        ;
}
