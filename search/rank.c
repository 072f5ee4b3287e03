#include "search/method.h"

/* Plans that come before one, counted by each worker. */
struct counter {
    int objective;
    const struct ranked_plan *than;
    double *better; /* by worker */
};

static void count_better(void *context, int worker, const struct ranked_plan *plan)
{
    struct counter *counter = context;
    counter->better[worker] += ranked_before(counter->objective, plan, counter->than);
}

static void count_ranks(const struct search *search, const struct ranked_plan *than,
                        struct arena *arena, struct rank_result *out)
{
    int jobs = walk_jobs(search->request);
    struct counter counter = { .objective = search->request->objective,
                               .than = than,
                               .better = ARENA_ARRAY(arena, double, (size_t)jobs) };
    struct walk walk = {
        .request = search->request,
        .system = search->system,
        .space = search->space,
        .start_s = search->start_s,
        .fits = count_better,
        .context = &counter,
    };
    struct tally tally = walk_run(&walk, arena);
    if (!walk_is_complete(&tally))
        return;
    out->of = tally.evaluated;
    if (!out->plan.prediction.fits)
        return;
    out->rank = 1;
    for (int i = 0; i < jobs; i++)
        out->rank += counter.better[i];
}

static struct scored_plan predict(const struct search *search, const struct plan *plan,
                                  struct arena *arena)
{
    struct evaluator *evaluator = evaluator_new(search->system, search->space->model);
    struct scored_plan scored = search_predict(evaluator, plan, arena);
    evaluator_free(evaluator);
    return scored;
}

bool search_rank(const struct search_request *asked, const struct search_result *result,
                 const struct plan *plan, struct arena *arena, struct rank_result *out,
                 struct err *err)
{
    *out = (struct rank_result){ .plan.plan = *plan };
    struct system system = *asked->system;
    if (asked->max_memory_bytes > 0)
        system.gpu.memory_bytes = asked->max_memory_bytes;
    struct space space;
    struct space_request space_request = { asked->model, system.num_gpus, &asked->base, asked->fix,
                                           asked->forbid };
    if (!space_new(&space_request, arena, &space, err))
        return false;
    struct plan whole = *plan;
    if ((whole.dp == 0 && !plan_derive_data(&whole, system.num_gpus, err)) ||
        plan_check(&whole, asked->model, asked->model->batch, system.num_gpus, err) ||
        !system_check(&system, &whole, err))
        return true;
    out->is_valid = true;
    struct search search = { asked, &system, &space, walk_clock_s() };
    out->plan = predict(&search, &whole, arena);
    const struct prediction *prediction = &out->plan.prediction;
    struct ranked_plan than = { whole, prediction->step_s, prediction->peak_memory_bytes };
    count_ranks(&search, &than, arena, out);
    if (result->num_top > 0)
        out->lost_share = prediction->step_s / result->top[0].prediction.step_s - 1;
    return true;
}
