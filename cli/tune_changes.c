/* Finds the plans that differ from the present one in a few settings, and the best plan of all. */
#include "base/length.h"
#include "base/statistics.h"
#include "cli/runnable.h"
#include "cli/tune.h"
#include "sim/engine/chances.h"
#include "sim/plan/ranks.h"
#include "sim/plan/state_share.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SETTINGS_CHANGED = 3, MOST_VALUES = 12, KEPT_OF_EACH = 2 };

/* --- settings -------------------------------------------------------------------------------- */

static void set_tp(struct plan *plan, int value)
{
    plan->tp = value;
    plan->sp = plan->sp && value > 1;
}

static void set_pp(struct plan *plan, int value)
{
    plan->pp = value;
    plan->vpp = value > 1 ? plan->vpp : 1;
    plan_set_even(plan);
}

static void set_vpp(struct plan *plan, int value)
{
    plan->vpp = value;
    plan_set_schedule(plan, "");
    plan_set_even(plan);
}

static void set_cp(struct plan *plan, int value)
{
    plan->cp = value;
}

static void set_ep(struct plan *plan, int value)
{
    plan->ep = value;
}

static void set_microbatch(struct plan *plan, int value)
{
    plan->microbatch = value;
}

static void set_sp(struct plan *plan, int value)
{
    plan->sp = value != 0;
}

static void set_zero(struct plan *plan, int value)
{
    plan->zero = value;
    plan->shard = zero_cuts(value, STATE_OPTIMIZER) ? plan->shard : 0;
}

static void set_recompute(struct plan *plan, int value)
{
    plan_set_recompute(plan, (enum recompute)value);
}

/* Value 1 sets the framework's default overlaps. */
static void set_overlap(struct plan *plan, int value)
{
    plan->overlaps_given = plan->overlaps_given && value == 0;
    plan->overlaps = value == 0 ? plan->overlaps : 0;
}

/* The settings that may change; the number of data ranks follows from them. Values that the model,
 * the GPUs or the framework do not allow are skipped later. */
static const struct knob {
    void (*set)(struct plan *plan, int value);
    int values[MOST_VALUES];
    int count;
} knobs[] = {
    { set_tp, { 1, 2, 4, 8, 16 }, 5 },
    { set_pp, { 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32 }, 12 },
    { set_cp, { 1, 2, 4, 8, 16 }, 5 },
    { set_ep, { 1, 2, 4, 8, 16, 32, 64 }, 7 },
    { set_microbatch, { 1, 2, 4, 8 }, 4 },
    { set_vpp, { 1, 2, 3, 4, 5, 6, 8, 10 }, 8 },
    { set_sp, { 0, 1 }, 2 },
    { set_zero, { 0, 1, 2, 3 }, 4 },
    { set_recompute, { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL }, 3 },
    { set_overlap, { 1 }, 1 },
};

/* --- scores ---------------------------------------------------------------------------------- */

static bool keeps_rules(struct tuning *t, struct plan *plan)
{
    struct err ignored = { 0 };
    const struct system *system = &t->job.setup.system;
    plan->dp = 0;
    if (!plan_derive_data(plan, system->num_gpus, &ignored))
        return false;
    if (plan_replicas(plan) == 1)
        plan->zero = 0;
    return !plan_check(plan, &t->now.model, t->now.model.batch, system->num_gpus, &ignored) &&
           system_check(system, plan, &ignored);
}

struct plan tune_start(const struct tuning *t)
{
    struct plan plan = t->now.plan;
    if (t->unsound.code == ERR_NONE && plan_replicas(&plan) == 1)
        plan.zero = 1;
    return plan;
}

bool tune_score(struct tuning *t, struct plan *plan, struct scored_plan *out)
{
    if (!keeps_rules(t, plan))
        return false;
    struct scored_plan scored = { *plan, evaluate(t->evaluator, plan) };
    *out = scored_plan_copy(&scored, &t->arena);
    return true;
}

bool tune_may_offer(struct tuning *t, const struct scored_plan *scored)
{
    struct err ignored = { 0 };
    struct job job = t->now;
    job.plan = scored->plan;
    return scored->prediction.fits && scored->prediction.p_oom <= t->oom_risk &&
           !target_check_job(t->job.target, &job, NULL, &t->arena, &ignored);
}

static bool is_present_sound(const struct tuning *t)
{
    return t->unsound.code == ERR_NONE && t->present.prediction.fits;
}

/* --- the nearest ----------------------------------------------------------------------------- */

struct near {
    struct tuning *t;
    struct change best[MOST_SETTINGS_CHANGED + 1]
                      [KEPT_OF_EACH]; /* [number of changed settings], fastest first */
    int count[MOST_SETTINGS_CHANGED + 1];
};

/* A plan with `settings` changed settings is kept only if its step takes less than the returned
 * time. */
static double limit_s(const struct near *near, int settings)
{
    double limit = is_present_sound(near->t) ? near->t->present.prediction.step_s : HUGE_VAL;
    for (int i = 1; i < settings; i++)
        if (near->count[i] > 0)
            limit = fmin(limit, near->best[i][0].plan.prediction.step_s);
    if (near->count[settings] == KEPT_OF_EACH)
        limit = fmin(limit, near->best[settings][KEPT_OF_EACH - 1].plan.prediction.step_s);
    return limit;
}

static void keep(struct near *near, int settings, const struct change *change)
{
    struct change *list = near->best[settings];
    int at = near->count[settings];
    if (at == KEPT_OF_EACH)
        at--;
    else
        near->count[settings]++;
    for (; at > 0 && list[at - 1].plan.prediction.step_s > change->plan.prediction.step_s; at--)
        list[at] = list[at - 1];
    list[at] = *change;
}

static void consider(struct near *near, const struct plan *candidate, int settings)
{
    struct tuning *t = near->t;
    struct plan plan = *candidate;
    struct change change = { .settings = settings };
    double limit = limit_s(near, settings);
    if (!keeps_rules(t, &plan) ||
        evaluate_peak_bytes(t->evaluator, &plan) > t->job.setup.memory_bytes ||
        evaluate_bound_s(t->evaluator, &plan) >= limit ||
        evaluate_step_s(t->evaluator, &plan) >= limit)
        return;
    struct arena_mark mark = arena_mark(&t->arena);
    if (tune_score(t, &plan, &change.plan) && tune_may_offer(t, &change.plan) &&
        tune_flags(t, &plan, &change.flags))
        keep(near, settings, &change);
    else
        arena_reset(&t->arena, mark);
}

/* Considers all plans in which exactly `left` of the settings from `first` on are changed. */
static void vary(struct near *near, const struct plan *plan, int first, int left, int settings)
{
    if (left == 0) {
        consider(near, plan, settings);
        return;
    }
    for (int k = first; k + left <= LENGTH(knobs); k++)
        for (int i = 0; i < knobs[k].count; i++) {
            struct plan changed = *plan;
            knobs[k].set(&changed, knobs[k].values[i]);
            if (!plan_equal(&changed, plan))
                vary(near, &changed, k + 1, left - 1, settings);
        }
}

/* --- the best of all ------------------------------------------------------------------------- */

static bool search_best(struct tuning *t, struct search_request *request, struct change *out)
{
    struct search_result result = { 0 };
    struct err ignored = { 0 };
    runnable_ask(t->job.target, request, &t->arena);
    bool found = runnable_search(t->job.target, &t->job.setup, request, 1, &result, &ignored) &&
                 result.num_top > 0;
    for (int i = 0; found && i < result.num_top; i++) {
        *out = (struct change){ .plan = scored_plan_copy(&result.top[i], &t->arena) };
        if (tune_may_offer(t, &out->plan) && tune_flags(t, &out->plan.plan, &out->flags)) {
            search_result_release(&result);
            return true;
        }
    }
    search_result_release(&result);
    return false;
}

static bool is_known(const struct changes *all, const struct plan *plan)
{
    for (int i = 0; i < all->count; i++)
        if (plan_equal(&all->at[i].plan.plan, plan))
            return true;
    return false;
}

/* Fills in gain, chance and time of a change. The ratio of measured to predicted time is assumed
 * equal for both plans, so it scales the time and cancels in the gain. */
static void judge(const struct tuning *t, struct change *change)
{
    const struct prediction *after = &change->plan.prediction, *now = &t->present.prediction;
    double chance[2];
    change->step_s = after->step_s;
    change->gain = NAN;
    change->p_gain = NAN;
    if (t->unsound.code != ERR_NONE)
        return;
    struct rival_time rivals[2] = { { now->step_s, &now->time }, { after->step_s, &after->time } };
    chances_of_best(&t->job.setup.system, rivals, 2, chance);
    change->gain = 1 - after->step_s / now->step_s;
    change->p_gain = chance[1];
    if (t->measured_s > 0)
        change->step_s *= t->measured_s / now->step_s;
}

static int by_time(const void *a, const void *b)
{
    return numbers_order(((const struct change *)a)->plan.prediction.step_s,
                         ((const struct change *)b)->plan.prediction.step_s);
}

void tune_find_changes(struct tuning *t, struct search_request *request, struct changes *out)
{
    struct near *near = ARENA_NEW(&t->arena, struct near);
    struct change best;
    struct plan start = tune_start(t);
    *near = (struct near){ .t = t };
    *out = (struct changes){ 0 };
    for (int n = 1; n <= MOST_SETTINGS_CHANGED; n++) {
        vary(near, &start, 0, n, n);
        for (int i = 0; i < near->count[n]; i++)
            out->at[out->count++] = near->best[n][i];
    }
    out->is_searched = search_best(t, request, &best);
    if (out->is_searched && !is_known(out, &best.plan.plan) &&
        (!is_present_sound(t) || best.plan.prediction.step_s < t->present.prediction.step_s))
        out->at[out->count++] = best;
    qsort(out->at, (size_t)out->count, sizeof *out->at, by_time);
    for (int i = 0; i < out->count; i++)
        judge(t, &out->at[i]);
}
