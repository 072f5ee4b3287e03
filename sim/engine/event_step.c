/* Times a plan's step with the event engine. */
#include "sim/engine/event_step.h"

#include "base/statistics.h"
#include "sim/plan/lowering.h"

/* The lists and costs that all runs of a step share. */
struct lists {
    const struct schedule *schedule;
    struct step_cost cost;
};

static bool make_lists(struct evaluator *evaluator, const struct model *model,
                       const struct plan *plan, struct arena *arena, struct lists *out,
                       struct err *err)
{
    double instructions = plan_instructions(plan, model->batch);
    if (instructions > MOST_EVENTS)
        return err_set(err, ERR_INFEASIBLE, "mb",
                       "expected at most %d instructions to run one by one; this plan has about "
                       "%.0f",
                       MOST_EVENTS, instructions);
    struct lowering lowering = plan_lowering(plan, model);
    struct schedule_shape shape = plan_shape(plan, model->batch);
    out->cost = evaluate_cost(evaluator, plan, arena);
    /* some stacks do not reduce tied embeddings */
    lowering.tied = lowering.tied && out->cost.stages[0].tied_s > 0;
    out->schedule =
        schedule_new(generator_find(plan_schedule(plan)), &shape, &lowering, arena, err);
    return out->schedule != NULL;
}

static double step_of(const struct lists *lists, const struct timeline *timeline)
{
    const struct step_cost *cost = &lists->cost;
    return (cost->validates ? timeline_own_s(timeline) : timeline_end_s(timeline)) +
           cost->overhead_s - (cost->draws ? 0 : cost->spared_s);
}

bool event_step_run(struct evaluator *evaluator, const struct model *model, const struct plan *plan,
                    struct arena *arena, struct event_step *out, struct err *err)
{
    struct lists lists = { 0 };
    if (!make_lists(evaluator, model, plan, arena, &lists, err))
        return false;
    out->schedule = lists.schedule;
    out->timeline = events_run(lists.schedule, &lists.cost, arena, err);
    if (!out->timeline)
        return false;
    out->step_s = step_of(&lists, out->timeline);
    return true;
}

static bool draw_one(struct lists *lists, uint64_t seed, double *step_s, struct err *err)
{
    struct arena scratch = { 0 };
    lists->cost.draws = true;
    lists->cost.jitter.seed = seed;
    const struct timeline *timeline = events_run(lists->schedule, &lists->cost, &scratch, err);
    if (timeline)
        *step_s = step_of(lists, timeline);
    arena_release(&scratch);
    return timeline != NULL;
}

bool event_step_draw(struct evaluator *evaluator, const struct model *model,
                     const struct plan *plan, struct draws draws, struct drawn_steps *out,
                     struct err *err)
{
    struct arena arena = { 0 };
    struct lists lists = { 0 };
    bool ok = make_lists(evaluator, model, plan, &arena, &lists, err);
    double *step_s = ARENA_ARRAY(&arena, double, (size_t)draws.count);
    for (int i = 0; ok && i < draws.count; i++)
        ok = draw_one(&lists, (uint64_t)draws.seed * MOST_DRAWS + (uint64_t)i, &step_s[i], err);
    if (ok) {
        numbers_sort(step_s, (size_t)draws.count);
        out->draws = draws;
        out->median_s = sorted_quantile(step_s, draws.count, 0.5);
        out->p90_s = sorted_quantile(step_s, draws.count, 0.9);
    }
    arena_release(&arena);
    return ok;
}
