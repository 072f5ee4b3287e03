#include "search/method.h"
#include "search/search.h"
#include "sim/plan/ranks.h"

/* Counts the plans that rank before a given plan, one count per worker. */
struct counter {
    int objective;
    const struct ranked_plan *than;
    double *better; /* [worker] */
};

static void count_better(void *context, int worker, const struct ranked_plan *plan)
{
    struct counter *counter = context;
    counter->better[worker] += ranked_before(counter->objective, plan, counter->than);
}

static void count_ranks(const struct search *search, const struct ranked_plan *than,
                        struct arena *arena, struct standing *out)
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
    if (!tally_is_complete(&tally))
        return;
    out->of = tally.evaluated;
    if (!out->plan.prediction.fits)
        return;
    out->rank = 1;
    for (int i = 0; i < jobs; i++)
        out->rank += counter.better[i];
}

bool search_standing(const struct search_request *request, const struct search_result *result,
                     const struct plan *plan, struct arena *arena, struct standing *out,
                     struct err *err)
{
    *out = (struct standing){ .plan.plan = *plan };
    struct prepared prepared;
    if (!search_prepare(request, arena, &prepared, err))
        return false;
    const struct model *model = request->model;
    int num_gpus = prepared.system.num_gpus;
    struct plan whole = *plan;
    if ((whole.dp == 0 && !plan_derive_data(&whole, num_gpus, err)) ||
        plan_check(&whole, model, model->batch, num_gpus, err) ||
        !system_check(&prepared.system, &whole, err))
        return true;
    out->is_valid = true;
    out->plan = search_predict(&prepared.search, &whole, arena);
    const struct prediction *prediction = &out->plan.prediction;
    struct ranked_plan than = { whole, prediction->step_s, prediction->peak_memory_bytes };
    count_ranks(&prepared.search, &than, arena, out);
    if (result->num_top > 0)
        out->lost_share = prediction->step_s / result->top[0].prediction.step_s - 1;
    return true;
}
