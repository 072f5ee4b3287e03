#include "search/parts.h"

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

static int count_parts(unsigned parts)
{
    int count = 0;
    for (; parts; parts &= parts - 1)
        count++;
    return count;
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

/* The sets that were tried for a candidate. */
struct trial_sets {
    const struct space *space;
    struct evaluator *evaluator;
    double most_bytes;
    unsigned *fitting;
    double *bytes;
    int num_fitting;
    unsigned leanest; /* 0: none yet */
    double leanest_bytes;
};

static void try_set(struct trial_sets *tried, const struct plan *candidate, unsigned parts)
{
    struct plan plan = parts_plan(candidate, parts);
    if (!may_be(tried->space, &plan))
        return;
    double bytes = evaluate_peak_bytes(tried->evaluator, &plan);
    if (bytes <= tried->most_bytes) {
        tried->fitting[tried->num_fitting] = parts;
        tried->bytes[tried->num_fitting++] = bytes;
    } else if (tried->leanest == 0 || bytes < tried->leanest_bytes) {
        tried->leanest = parts;
        tried->leanest_bytes = bytes;
    }
}

int parts_that_fit(const struct space *space, struct evaluator *evaluator, double most_bytes,
                   const struct plan *plan, unsigned sets[MOST_SETS], double bytes[MOST_SETS])
{
    struct trial_sets tried = { space, evaluator, most_bytes, sets, bytes, 0, 0, 0 };
    unsigned possible = plan_possible_replays(space->model);
    for (int size = 1; size <= REPLAY_PER_OP; size++)
        for (unsigned parts = replays_next(0, possible); parts;
             parts = replays_next(parts, possible))
            if (count_parts(parts) == size && !replays_overlap(parts) &&
                !has_subset(sets, tried.num_fitting, parts))
                try_set(&tried, plan, parts);
    if (tried.num_fitting == 0) {
        sets[0] = tried.leanest;
        bytes[0] = tried.leanest_bytes;
    }
    return tried.num_fitting;
}

int parts_sets(const struct space *space, const struct plan *plan, int sets[MOST_SETS])
{
    struct plan alike = *plan;
    unsigned possible = plan_possible_replays(space->model);
    int count = 0;
    alike.stage_replays = NULL;
    alike.num_stage_replays = 0;
    if (!parts_are_open(space, plan)) {
        sets[0] = (int)plan_replays(&alike);
        return 1;
    }
    for (int size = 1; size <= REPLAY_PER_OP; size++)
        for (unsigned parts = replays_next(0, possible); parts;
             parts = replays_next(parts, possible)) {
            struct plan with = parts_plan(&alike, parts);
            if (count_parts(parts) == size && !replays_overlap(parts) && may_be(space, &with))
                sets[count++] = (int)parts;
        }
    return count;
}

double parts_least_bytes(const struct space *space, struct evaluator *evaluator,
                         const struct plan *plan)
{
    unsigned possible = plan_possible_replays(space->model);
    double least_bytes = HUGE_VAL;
    for (unsigned parts = replays_next(0, possible); parts; parts = replays_next(parts, possible)) {
        struct plan with = parts_plan(plan, parts);
        if (!replays_overlap(parts))
            least_bytes = fmin(least_bytes, evaluate_first_stage_bytes(evaluator, &with));
    }
    return least_bytes;
}

double parts_choose(const struct space *space, struct evaluator *evaluator, double most_bytes,
                    struct plan *plan)
{
    unsigned sets[MOST_SETS];
    double bytes[MOST_SETS], best_s = 0;
    const double rounding = 1e-12; /* a bound is summed in another order */
    int best = 0, count = parts_that_fit(space, evaluator, most_bytes, plan, sets, bytes);
    for (int i = 0; i < count && count > 1; i++) {
        struct plan with = parts_plan(plan, sets[i]);
        if (i > 0 && evaluate_bound_s(evaluator, &with) * (1 - rounding) > best_s)
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
