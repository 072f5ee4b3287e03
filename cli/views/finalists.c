#include "cli/views/finalists.h"

#include "base/parallel.h"
#include "base/text.h"
#include "cli/print/scale.h"
#include "sim/engine/event_step.h"
#include "sim/plan/lowering.h"

#include <stdio.h>

enum { MOST_INSTRUCTIONS = 200000 };

double finalist_step_s(const struct setup *setup, const struct plan *plan)
{
    if (plan_instructions(plan, setup->model.batch) > MOST_INSTRUCTIONS)
        return 0;
    struct err ignored = { 0 };
    struct arena arena = { 0 };
    struct event_step step = { 0 };
    struct evaluator *evaluator = evaluator_new(&setup->system, &setup->model);
    bool ok = event_step_run(evaluator, &setup->model, plan, &arena, &step, &ignored);
    evaluator_free(evaluator);
    arena_release(&arena);
    return ok ? step.step_s : 0;
}

struct judging {
    const struct setup *setup;
    const struct search_result *result;
    struct finalists *finalists;
};

static void judge(void *context, size_t i, int worker)
{
    (void)worker;
    const struct judging *judging = context;
    judging->finalists->step_s[i] = finalist_step_s(judging->setup, &judging->result->top[i].plan);
}

struct finalists finalists_judge(const struct setup *setup, const struct search_result *result,
                                 int jobs)
{
    struct finalists finalists = { .count = result->num_top < MOST_FINALISTS ? result->num_top
                                                                             : MOST_FINALISTS };
    struct judging judging = { setup, result, &finalists };
    parallel_for(jobs, (size_t)finalists.count, 1, judge, &judging);
    return finalists;
}

int finalists_first(const struct finalists *finalists)
{
    int first = 0;
    for (int i = 0; i < finalists->count; i++) {
        if (finalists->step_s[i] <= 0)
            return -1;
        if (finalists->step_s[i] < finalists->step_s[first])
            first = i;
    }
    return finalists->count > 0 ? first : -1;
}

void show_finalists(const struct finalists *finalists)
{
    int first = finalists_first(finalists);
    if (first < 0)
        return;
    struct time_scale scale = time_scale_of(finalists->step_s[0]);
    struct text line = { 0 };
    for (int i = 0; i < finalists->count; i++)
        text_add(&line, "%s%.*f", i > 0 ? ", " : "", scale.decimals,
                 finalists->step_s[i] * scale.per_s);
    if (finalists->count == 1)
        printf("  Simulated event by event, it takes %s %s.\n", text_get(&line), scale.unit);
    else
        printf("  Simulated event by event, they take %s %s: #%d is the fastest.\n",
               text_get(&line), scale.unit, first + 1);
    text_release(&line);
}
