#include "sim/engine/event_step.h"

#include "sim/schedule/lowering.h"

bool event_step_run(struct evaluator *evaluator, const struct model *model, const struct plan *plan,
                    struct arena *arena, struct event_step *out, struct err *err)
{
    double instructions = plan_instructions(plan, model->batch);
    if (instructions > MOST_EVENTS)
        return err_set(err, ERR_INFEASIBLE, "mb",
                       "expected at most %d instructions to run one by one; this plan has about "
                       "%.0f",
                       MOST_EVENTS, instructions);
    struct lowering lowering = plan_lowering(plan, model);
    struct schedule_shape shape = plan_shape(plan, model->batch);
    struct step_cost cost = evaluate_cost(evaluator, plan, arena);
    out->schedule =
        schedule_new(generator_find(plan_schedule(plan)), &shape, &lowering, arena, err);
    if (!out->schedule)
        return false;
    out->timeline = events_run(out->schedule, &cost, arena, err);
    if (!out->timeline)
        return false;
    out->step_s = timeline_end_s(out->timeline) + cost.overhead_s;
    return true;
}
