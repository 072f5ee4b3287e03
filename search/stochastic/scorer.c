/* Scores candidate plans until a budget of scores is spent. */
#include "search/stochastic/scorer.h"
#include "search/room.h"

#include <math.h>

/* Limits of consecutive points that are outside the space or rejected: MOST_STARTS for random
 * points at a start, MOST_STEPS for mutants in one step. */
enum { MOST_STARTS = 10000, MOST_STEPS = 200 };

struct scorer scorer_new(const struct search *search, const struct encoding *encoding,
                         double budget)
{
    return (struct scorer){ .search = search,
                            .encoding = encoding,
                            .is_masked = true,
                            .budget = budget,
                            .evaluator = evaluator_new(search->system, search->space->model) };
}

void scorer_release(struct scorer *scorer)
{
    evaluator_free(scorer->evaluator);
    met_release(&scorer->met);
}

bool scorer_is_over(const struct scorer *scorer)
{
    return scorer->spent >= scorer->budget || !tally_is_complete(&scorer->tally);
}

static bool fits(const struct scorer *scorer, const struct met *met)
{
    return met->rule < 0 && met->peak_memory_bytes <= scorer->search->system->gpu.memory_bytes;
}

static struct met meet(struct scorer *scorer, uint64_t key, struct plan *plan)
{
    struct met met = { .key = key, .rule = -1 };
    const struct plan_rule *broken = space_check(scorer->encoding->space, plan);
    if (broken) {
        met.rule = plan_rule_number(broken);
        return met;
    }
    met.peak_memory_bytes = space_peak_bytes(scorer->encoding->space, scorer->evaluator,
                                             scorer->search->system->gpu.memory_bytes, plan);
    met.step_s = fits(scorer, &met) ? evaluate_step_s(scorer->evaluator, plan)
                                    : evaluate_bound_s(scorer->evaluator, plan);
    return met;
}

static double score_of(const struct scorer *scorer, const struct met *met)
{
    if (met->rule >= 0)
        return HUGE_VAL;
    bool least_memory = scorer->search->request->objective == OBJECTIVE_MEMORY;
    double value = least_memory ? met->peak_memory_bytes : met->step_s;
    if (fits(scorer, met))
        return value;
    return value * (2 + met->peak_memory_bytes / scorer->search->system->gpu.memory_bytes);
}

enum verdict scorer_score(struct scorer *scorer, const struct point *point, double *score)
{
    const struct search *search = scorer->search;
    if (scorer_is_over(scorer) || tally_must_stop(&scorer->tally, search->request, search->start_s))
        return OVER;
    uint64_t key = encoding_key(scorer->encoding, point);
    const struct met *known = met_find(&scorer->met, key);
    struct plan plan;
    if (!known && !encoding_plan(scorer->encoding, point, &plan))
        return OUT;
    struct met met = known ? *known : meet(scorer, key, &plan);
    if (!known)
        met_add(&scorer->met, &met);
    if (met.rule >= 0 && scorer->is_masked)
        return OUT;
    scorer->spent++;
    *score = score_of(scorer, &met);
    if (scorer->scored)
        scorer->scored(scorer->context, scorer, *score, fits(scorer, &met));
    return SCORED;
}

enum verdict scorer_start(struct scorer *scorer, struct random *rng, struct point *point,
                          double *score)
{
    for (int i = 0; i < MOST_STARTS; i++) {
        if (!point_draw(scorer->encoding, rng, point))
            continue;
        enum verdict verdict = scorer_score(scorer, point, score);
        if (verdict != OUT)
            return verdict;
    }
    return OUT;
}

enum verdict scorer_step(struct scorer *scorer, struct random *rng, const struct point *parent,
                         struct point *child, double *score)
{
    for (int i = 0; i < MOST_STEPS; i++) {
        *child = *parent;
        point_mutate(scorer->encoding, rng, child);
        enum verdict verdict = scorer_score(scorer, child, score);
        if (verdict != OUT)
            return verdict;
    }
    return OUT;
}
