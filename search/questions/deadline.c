/* Finds the fewest GPUs whose fastest plan trains the model's tokens before a deadline, failures
 * and checkpoints included. */
#include "search/questions/deadline.h"

#include "base/clock.h"
#include "models/layer.h"
#include "search/counts.h"
#include "search/effective.h"
#include "search/evaluators.h"
#include "search/probe.h"

#include <assert.h>
#include <math.h>

struct hunt {
    const struct search_request *request;
    double start_s;
    double floor_gpu_s; /* lower bound of the GPU-seconds for all tokens, with every FLOP at the
                           GPUs' peak */
    double deadline_s;
    /* [index of a number of GPUs]: a lower bound of the step times, from an earlier search; 0:
     * unknown */
    double *least_step_s;
    struct deadline_result *result;
};

/* A lower bound of the training time on `num_gpus`. */
static double floor_s(const struct hunt *hunt, int num_gpus)
{
    return hunt->floor_gpu_s / num_gpus;
}

/* Time left before the limit, > 0; 0: no limit. */
static double time_left_s(const struct hunt *hunt)
{
    const double least_s = 1e-6;
    double limit_s = hunt->request->time_limit_s;
    return limit_s > 0 ? fmax(hunt->start_s + limit_s - clock_now_s(), least_s) : 0;
}

/* The longest step with which a plan trains in `train_s`. It ignores failures and checkpoints,
 * which only add time. */
static double step_within_s(const struct hunt *hunt, double train_s)
{
    const double rounding = 1e-9;
    const struct model *model = hunt->request->model;
    return train_s / (model->tokens / model->batch / model->seq) * (1 + rounding);
}

/* Searches one number of GPUs for plans that train within limit_s (HUGE_VAL: no limit). Keeps the
 * best plan if it is faster than the plans that were found before. */
static void search_count(struct hunt *hunt, const struct values *counts, int number, double limit_s)
{
    int num_gpus = counts->at[number];
    struct deadline_result *result = hunt->result;
    struct system system;
    struct search_request request = probe_on(hunt->request, num_gpus, &system);
    request.time_limit_s = time_left_s(hunt);
    request.limit_s = isinf(limit_s) ? 0 : step_within_s(hunt, limit_s);
    struct probe probe = probe_best(&request, &result->arena);
    result->timed_out |= probe.timed_out;
    result->was_interrupted |= probe.was_interrupted;
    hunt->least_step_s[number] = probe.least_s;
    if (!probe.fits)
        return;
    double seconds = effective_s(&system, request.model, &probe.best);
    bool is_faster =
        seconds < result->train_s || (seconds == result->train_s && num_gpus < result->num_gpus);
    if (result->num_gpus > 0 && !is_faster)
        return;
    result->num_gpus = num_gpus;
    result->train_s = seconds;
    result->best = probe.best;
    result->is_met = seconds <= hunt->deadline_s;
}

static bool is_over(const struct hunt *hunt)
{
    return hunt->result->timed_out || hunt->result->was_interrupted;
}

static void show_progress(const struct hunt *hunt, int done, int count)
{
    const struct search_request *request = hunt->request;
    if (request->progress)
        request->progress((double)done / count, request->progress_context);
}

/* The training time of the fastest plan so far. Slower plans are not needed. */
static double fastest_s(const struct hunt *hunt)
{
    return hunt->result->num_gpus > 0 ? hunt->result->train_s : HUGE_VAL;
}

/* Tries increasing numbers of GPUs, from the first that could meet the deadline, until one meets
 * it. Bounds rule out most numbers before any plan is timed. With a time limit the search may end
 * before a plan meets the deadline, so plans that miss it are kept too. */
static void look_for_one_in_time(struct hunt *hunt, const struct values *counts, int first)
{
    struct deadline_result *result = hunt->result;
    bool may_end_early = hunt->request->time_limit_s > 0;
    for (int i = first; i < counts->count && !result->is_met && !is_over(hunt); i++) {
        show_progress(hunt, i, counts->count);
        search_count(hunt, counts, i, may_end_early ? fastest_s(hunt) : hunt->deadline_s);
        result->num_searched++;
    }
}

/* Whether a plan on this number of GPUs may be the fastest of all. */
static bool may_be_faster(const struct hunt *hunt, const struct values *counts, int number)
{
    const struct deadline_result *result = hunt->result;
    return result->num_gpus == 0 ||
           (floor_s(hunt, counts->at[number]) <= result->train_s &&
            hunt->least_step_s[number] <= step_within_s(hunt, result->train_s));
}

/* Finds the fastest plan on any number of GPUs. Larger numbers come first, as they are often the
 * fastest; bounds then rule out most others. Numbers of GPUs are skipped that would be slower than
 * the fastest plan even at their peak rate. With a time limit, the numbers from index `first` on
 * have been searched before. */
static void look_for_fastest(struct hunt *hunt, const struct values *counts, int first)
{
    struct deadline_result *result = hunt->result;
    int count = hunt->request->time_limit_s > 0 ? first : counts->count;
    for (int i = count - 1; i >= 0 && !is_over(hunt); i--) {
        bool is_searched = may_be_faster(hunt, counts, i);
        show_progress(hunt, count - 1 - i, count);
        if (is_searched)
            search_count(hunt, counts, i, fastest_s(hunt));
        result->num_searched += is_searched || i >= first;
    }
}

/* Whether some number of GPUs meets the deadline. If none does, the result becomes the fastest plan
 * on any number. The largest number is searched first, as it meets the deadline most often. */
static bool is_in_reach(struct hunt *hunt, const struct values *counts, int first)
{
    struct deadline_result *result = hunt->result;
    if (first < counts->count)
        search_count(hunt, counts, counts->count - 1, hunt->deadline_s);
    if (!result->is_met)
        look_for_fastest(hunt, counts, first);
    result->is_met &= !is_over(hunt);
    return result->is_met;
}

/* Without a time limit, the search first finds out whether any number of GPUs meets the deadline.
 * If none does, the search ends there, without searching any number twice. */
static void walk_counts(struct hunt *hunt, const struct values *counts)
{
    struct deadline_result *result = hunt->result;
    int first = 0;
    while (first < counts->count && floor_s(hunt, counts->at[first]) > hunt->deadline_s)
        first++;
    if (hunt->request->time_limit_s <= 0) {
        if (!is_in_reach(hunt, counts, first))
            return;
        result->is_met = false;
        result->num_gpus = result->num_searched = 0;
    }
    look_for_one_in_time(hunt, counts, first);
    if (!result->is_met)
        look_for_fastest(hunt, counts, first);
}

bool search_deadline(const struct search_request *asked, double deadline_s,
                     struct deadline_result *result, struct err *err)
{
    *result = (struct deadline_result){ 0 };
    const struct model *model = asked->model;
    struct search_request request = *asked;
    request.objective = OBJECTIVE_TIME;
    assert(model->tokens > 0 && deadline_s > 0);
    struct prepared prepared;
    if (!search_prepare(&request, &result->arena, &prepared, err))
        return false;
    enum precision precision = (enum precision)prepared.space.base.precision;
    double peak = request.system->gpu.peak_flops_per_s[precision_dtype((int)precision)];
    double step_flops = model_step_flops(model, model->batch, model->seq);
    struct hunt hunt = { .request = &request,
                         .start_s = prepared.search.start_s,
                         .floor_gpu_s =
                             step_flops / peak * (model->tokens / model->batch) / model->seq,
                         .deadline_s = deadline_s,
                         .result = result };
    struct values counts =
        counts_all(&request.system->cluster, request.system->num_gpus, &result->arena);
    hunt.least_step_s = ARENA_ARRAY(&result->arena, double, (size_t)counts.count);
    struct evaluators evaluators = { 0 };
    if (!request.evaluators)
        request.evaluators = &evaluators;
    walk_counts(&hunt, &counts);
    evaluators_release(&evaluators);
    return true;
}

void deadline_result_release(struct deadline_result *result)
{
    arena_release(&result->arena);
    *result = (struct deadline_result){ 0 };
}
