#include "search/parts.h"

#include "base/statistics.h"

#include <math.h>

bool parts_are_open(const struct space *space, const struct plan *plan)
{
    return space->picks_modules && plan->recompute == RECOMPUTE_SELECTIVE;
}

struct plan parts_none(const struct space *space, const struct plan *plan)
{
    struct plan lightest = *plan;
    if (parts_are_open(space, plan))
        plan_set_recompute(&lightest, RECOMPUTE_NONE);
    return lightest;
}

struct plan parts_plan(const struct plan *plan, unsigned parts)
{
    struct plan with = *plan;
    with.replays = parts == REPLAYS_CORE ? 0 : parts;
    return with;
}

static bool has_subset(const unsigned *sets, int count, unsigned parts)
{
    for (int i = 0; i < count; i++)
        if ((sets[i] & parts) == sets[i])
            return true;
    return false;
}

static bool may_be(const struct space *space, const struct plan *plan)
{
    return forbidden_allows(&space->forbidden, "recompute", plan) && !space_check(space, plan);
}

/* The sets of recomputed modules that were tried for a candidate. */
struct trial_sets {
    const struct space *space;
    struct evaluator *evaluator;
    const struct sets_memory *memory; /* lower bounds for each set */
    const struct plan *candidate;
    unsigned leanest; /* 0: none yet */
    double leanest_bytes;
};

/* The peak with the set; HUGE_VAL if the set breaks a rule. */
static double peak_with(const struct trial_sets *tried, unsigned parts)
{
    struct plan plan = parts_plan(tried->candidate, parts);
    return may_be(tried->space, &plan) ? evaluate_peak_bytes(tried->evaluator, &plan) : HUGE_VAL;
}

static void keep_leaner(struct trial_sets *tried, unsigned parts, double bytes)
{
    if (bytes < tried->leanest_bytes) {
        tried->leanest = parts;
        tried->leanest_bytes = bytes;
    }
}

/* Finds the set that needs the least memory; of several, the first. The set with the lowest bound
 * is tried first, so that few others must be tried. */
static void find_leanest(struct trial_sets *tried)
{
    const struct replay_sets *all = &tried->memory->sets->all;
    double bounds[MOST_SETS], most_bytes = HUGE_VAL;
    int lowest = 0;
    for (int i = 0; i < all->count; i++) {
        bounds[i] = sets_least_bytes(tried->memory, all->at[i], HUGE_VAL);
        lowest = bounds[i] < bounds[lowest] ? i : lowest;
    }
    if (all->count > 0)
        most_bytes = peak_with(tried, all->at[lowest]);
    for (int i = 0; i < all->count; i++)
        if (bounds[i] <= most_bytes)
            keep_leaner(tried, all->at[i], peak_with(tried, all->at[i]));
}

int parts_that_fit(const struct space *space, struct evaluator *evaluator, double most_bytes,
                   const struct plan *plan, unsigned sets[MOST_SETS], double bytes[MOST_SETS])
{
    struct trial_sets tried = {
        .space = space, .evaluator = evaluator, .candidate = plan, .leanest_bytes = HUGE_VAL
    };
    int count = 0;
    tried.memory = evaluate_sets_memory(evaluator, plan);
    const struct replay_sets *all = &tried.memory->sets->all;
    for (int i = 0; i < all->count; i++) {
        unsigned parts = all->at[i];
        if (has_subset(sets, count, parts) ||
            sets_least_bytes(tried.memory, parts, most_bytes) > most_bytes)
            continue;
        bytes[count] = peak_with(&tried, parts);
        if (bytes[count] <= most_bytes)
            sets[count++] = parts;
    }
    if (count == 0) {
        find_leanest(&tried);
        sets[0] = tried.leanest;
        bytes[0] = tried.leanest_bytes;
    }
    return count;
}

int parts_sets(const struct space *space, const struct plan *plan, int sets[MOST_SETS])
{
    struct plan alike = *plan;
    struct replay_sets all;
    int count = 0;
    alike.stage_replays = NULL;
    alike.num_stage_replays = 0;
    if (!parts_are_open(space, plan)) {
        sets[0] = (int)plan_replays(&alike);
        return 1;
    }
    replays_list(plan_possible_replays(space->model), &all);
    for (int i = 0; i < all.count; i++) {
        struct plan with = parts_plan(&alike, all.at[i]);
        if (may_be(space, &with))
            sets[count++] = (int)all.at[i];
    }
    return count;
}

double parts_least_bytes(struct evaluator *evaluator, const struct plan *plan)
{
    const struct sets_memory *memory = evaluate_sets_memory(evaluator, plan);
    const struct replay_sets *all = &memory->sets->all;
    double least_bytes = HUGE_VAL;
    if (memory->num_stages == 0)
        return evaluate_leanest_bytes(evaluator, plan);
    for (int i = 0; i < all->count; i++)
        least_bytes = fmin(least_bytes, sets_least_bytes(memory, all->at[i], HUGE_VAL));
    return least_bytes;
}

double parts_choose(const struct space *space, struct evaluator *evaluator, double most_bytes,
                    struct plan *plan)
{
    unsigned sets[MOST_SETS];
    double bytes[MOST_SETS], best_s = 0;
    int best = 0, count = parts_that_fit(space, evaluator, most_bytes, plan, sets, bytes);
    for (int i = 0; i < count && count > 1; i++) {
        struct plan with = parts_plan(plan, sets[i]);
        if (i > 0 && sum_floor(evaluate_bound_s(evaluator, &with)) > best_s)
            continue;
        double step_s = evaluate_step_s(evaluator, &with);
        if (i == 0 || step_s < best_s) {
            best = i;
            best_s = step_s;
        }
    }
    if (sets[best] == 0)
        return evaluate_peak_bytes(evaluator, plan);
    *plan = parts_plan(plan, sets[best]);
    return bytes[best];
}
