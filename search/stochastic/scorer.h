/* search/stochastic/scorer.h - points scored against a budget, by the same terms for every method.
 *
 * The score is what the search makes least: the step's seconds or the peak's bytes. A plan over
 * memory scores its value x (2 + its peak / the GPU's memory), so that there is a way down to those
 * that fit; its seconds are a bound, as nobody wants to know them exactly and timing the pipeline
 * of a plan that is far from fitting can take long. Every point that is scored counts against the
 * budget, plans over memory and plans scored before too. A plan that breaks a rule is told by the
 * mask: it costs nothing and has no score. Without the mask, which is for comparison, it costs a
 * score as well. */
#ifndef SEARCH_STOCHASTIC_SCORER_H
#define SEARCH_STOCHASTIC_SCORER_H

#include "search/method.h"
#include "search/stochastic/encoding.h"
#include "search/stochastic/met.h"

struct scorer {
    const struct search *search; /* objective, limits, memory */
    const struct encoding *encoding;
    bool is_masked;
    double budget, spent; /* scores */
    struct evaluator *evaluator;
    struct met_table met;
    struct tally tally; /* only whether the search was ended early: tally_must_stop */
    /* Told of each score, and whether it is that of a plan that fits. NULL: nobody. */
    void (*scored)(void *context, const struct scorer *scorer, double score, bool fits);
    void *context;
};

enum verdict {
    SCORED,
    OUT, /* outside the space, or told by the mask: draw another */
    OVER /* the budget is spent, or the search was ended: stop */
};

struct scorer scorer_new(const struct search *search, const struct encoding *encoding,
                         double budget);
void scorer_release(struct scorer *scorer);

bool scorer_is_over(const struct scorer *scorer);
/* HUGE_VAL for a plan that breaks a rule, where the mask is off. */
enum verdict scorer_score(struct scorer *scorer, const struct point *point, double *score);

/* Points drawn at random until one is scored, many times; not SCORED: stop. */
enum verdict scorer_start(struct scorer *scorer, struct random *rng, struct point *point,
                          double *score);
/* Mutants of `parent` until one is scored, a few times; OUT: it has no neighbours. */
enum verdict scorer_step(struct scorer *scorer, struct random *rng, const struct point *parent,
                         struct point *child, double *score);

#endif
