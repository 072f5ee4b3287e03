/* search/stochastic/scorer.h - scores points within a budget, in the same way for every method.
 *
 * The search minimises the score: the step's seconds or the peak's bytes. A plan over memory scores
 * its value x (2 + peak / GPU memory), which guides methods to plans that fit. Its seconds are a
 * lower bound, as timing the pipeline of a plan far over memory can take long. Every scored point
 * uses one unit of the budget, also plans over memory and repeated plans. A plan that breaks a rule
 * is rejected (masked) and uses no budget. For comparisons the mask can be switched off; then such
 * a plan uses one unit too. */
#ifndef SEARCH_STOCHASTIC_SCORER_H
#define SEARCH_STOCHASTIC_SCORER_H

#include "search/method.h"
#include "search/stochastic/encoding.h"
#include "search/stochastic/met.h"

struct scorer {
    const struct search *search; /* objective, limits, memory */
    const struct encoding *encoding;
    bool is_masked;
    double budget, spent; /* in scored points */
    struct evaluator *evaluator;
    struct met_table met;
    struct tally tally; /* read only by tally_must_stop, to end the search early */
    /* Called with each score, and whether the plan fits. May be NULL. */
    void (*scored)(void *context, const struct scorer *scorer, double score, bool fits);
    void *context;
};

enum verdict {
    SCORED,
    OUT, /* outside the space, or rejected by the mask: draw another point */
    OVER /* the budget is spent or the search was ended: stop */
};

struct scorer scorer_new(const struct search *search, const struct encoding *encoding,
                         double budget);
void scorer_release(struct scorer *scorer);

bool scorer_is_over(const struct scorer *scorer);
/* *score is HUGE_VAL if the plan breaks a rule and the mask is off. */
enum verdict scorer_score(struct scorer *scorer, const struct point *point, double *score);

/* Draws points at random until one is scored, at most 10000 times. If the result is not SCORED, the
 * strategy must stop. */
enum verdict scorer_start(struct scorer *scorer, struct random *rng, struct point *point,
                          double *score);
/* Draws mutants of `parent` until one is scored, at most 200 times. OUT: none was scored. */
enum verdict scorer_step(struct scorer *scorer, struct random *rng, const struct point *parent,
                         struct point *child, double *score);

#endif
