/* search/stochastic/scorer.h - points scored against a budget, by the same terms for every method.
 *
 * The search minimises the score: the step's seconds or the peak's bytes. A plan over memory scores
 * its value x (2 + its peak / the GPU's memory), which leads down to plans that fit. Its seconds
 * are a bound, as timing the pipeline of a plan far from fitting can take long. Every scored point
 * counts against the budget, also plans over memory and plans scored before. The mask refuses a
 * plan that breaks a rule: it costs nothing and has no score. Without the mask, which is for
 * comparison, it costs a score as well. */
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
    /* Gets each score, and whether its plan fits. May be NULL. */
    void (*scored)(void *context, const struct scorer *scorer, double score, bool fits);
    void *context;
};

enum verdict {
    SCORED,
    OUT, /* outside the space, or refused by the mask: draw another */
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
