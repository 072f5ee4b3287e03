/* Compares plans by the time of the whole run, including failures and checkpoints. */
#include "search/effective.h"

#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>

struct run effective_run(const struct system *system, const struct model *model,
                         const struct plan *plan, const struct prediction *prediction)
{
    return (struct run){ .system = system,
                         .model = model,
                         .plan = plan,
                         .stages = prediction->stages,
                         .work_s = model->tokens / prediction->tokens_per_s,
                         .step_s = prediction->step_s,
                         .step_low_s = prediction->step_low_s,
                         .step_high_s = prediction->step_high_s };
}

double effective_s(const struct system *system, const struct model *model,
                   const struct scored_plan *scored)
{
    struct run run = effective_run(system, model, &scored->plan, &scored->prediction);
    return goodput_of(&run).run_s.mean;
}

/* The iteration matters only if the run ends before its first checkpoint. Otherwise the useful
 * fraction of the run does not depend on its length. */
double effective_tokens(const struct system *system, const struct model *model,
                        const struct scored_plan *scored, double time_s)
{
    enum { TURNS = 4 };
    struct run run = effective_run(system, model, &scored->plan, &scored->prediction);
    run.work_s = time_s;
    for (int turn = 0; turn < TURNS && run.work_s > 0; turn++)
        run.work_s = goodput_of(&run).kept * time_s;
    return run.work_s * scored->prediction.tokens_per_s;
}

struct ordered {
    struct scored_plan scored;
    double run_s;
    int place;
};

/* Sorts by the run's time; plans with equal times stay sorted by step time. */
static int compare_runs(const void *a, const void *b)
{
    const struct ordered *left = a, *right = b;
    int order = numbers_order(left->run_s, right->run_s);
    return order ? order : left->place - right->place;
}

/* A lower bound of the run time of every plan whose step takes at least as long as the step of this
 * plan. */
static double least_run_s(const struct search_request *request, const struct scored_plan *scored)
{
    struct run run =
        effective_run(request->system, request->model, &scored->plan, &scored->prediction);
    return run.work_s / goodput_most(&run);
}

bool effective_sort(const struct search_request *request, struct search_result *result)
{
    int count = result->num_top;
    if (count == 0)
        return true;
    double bound_s = least_run_s(request, &result->top[count - 1]);
    struct ordered *ordered = ARENA_ARRAY(&result->arena, struct ordered, (size_t)count);
    for (int i = 0; i < count; i++)
        ordered[i] =
            (struct ordered){ result->top[i],
                              effective_s(request->system, request->model, &result->top[i]), i };
    qsort(ordered, (size_t)count, sizeof *ordered, compare_runs);
    for (int i = 0; i < count; i++)
        result->top[i] = ordered[i].scored;
    return ordered[0].run_s <= bound_s;
}
