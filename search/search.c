/* Runs a search: checks the request, calls the method, and sorts the answer. An exclusion is a
 * reason why plans were excluded, with their number. */
#include "search/search.h"

#include "base/clock.h"
#include "base/length.h"
#include "base/statistics.h"
#include "base/text.h"
#include "search/effective.h"
#include "search/evaluators.h"
#include "search/method.h"
#include "sim/engine/memory_interval.h"
#include "sim/plan/axis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const objective_names[] = { "time", "cost", "memory", "time-to-accuracy", NULL };

/* Orders by falling count, then by name. */
static int compare_exclusions(const void *a, const void *b)
{
    const struct exclusion *left = a;
    const struct exclusion *right = b;
    int order = numbers_order(right->count, left->count);
    return order ? order : strcmp(left->rule, right->rule);
}

static void add_exclusion(struct search_result *result, const char *rule, const char *summary,
                          double count)
{
    if (count == 0)
        return;
    result->exclusions[result->num_exclusions++] = (struct exclusion){ rule, summary, count };
    result->infeasible += count;
}

void search_fill_counts(const struct tally *tally, struct search_result *result)
{
    size_t most = (size_t)plan_num_rules() + 1;
    result->exclusions = ARENA_ARRAY(&result->arena, struct exclusion, most);
    for (int i = 0; i < plan_num_rules(); i++)
        add_exclusion(result, plan_rule_at(i)->name, plan_rule_at(i)->summary, tally->broken[i]);
    add_exclusion(result, "memory", "Every stage fits in the GPU's memory.", tally->over_memory);
    qsort(result->exclusions, (size_t)result->num_exclusions, sizeof *result->exclusions,
          compare_exclusions);
    result->evaluated = tally->evaluated;
    result->bounded = tally->bounded;
    result->candidates = result->evaluated + result->bounded + result->infeasible;
    result->timed_out = tally->timed_out;
    result->was_interrupted = tally->was_interrupted;
}

double search_peak_floor_s(const struct search *search)
{
    const struct system *system = search->system;
    const struct model *model = search->space->model;
    enum dtype dtype = precision_dtype(search->space->base.precision);
    return model_step_flops(model, model->batch, model->seq) /
           (system->num_gpus * system->gpu.peak_flops_per_s[dtype]);
}

static struct scored_plan predict(struct evaluator *evaluator, const struct plan *plan,
                                  struct arena *arena)
{
    struct scored_plan scored = { *plan, evaluate(evaluator, plan) };
    struct prediction *prediction = &scored.prediction;
    size_t num_stages = (size_t)prediction->num_stages;
    struct stage_memory *stages = ARENA_ARRAY(arena, struct stage_memory, num_stages);
    memcpy(stages, prediction->stages, num_stages * sizeof *stages);
    prediction->stages = stages;
    return scored;
}

struct scored_plan search_predict(const struct search *search, const struct plan *plan,
                                  struct arena *arena)
{
    struct evaluator *evaluator = evaluator_new(search->system, search->space->model);
    struct scored_plan scored = predict(evaluator, plan, arena);
    evaluator_free(evaluator);
    return scored;
}

void search_fill_top(const struct search *search, struct frontier *frontier,
                     struct search_result *result)
{
    struct evaluator *evaluator = evaluator_new(search->system, search->space->model);
    result->num_top = frontier->count;
    result->top = ARENA_ARRAY(&result->arena, struct scored_plan, (size_t)frontier->count);
    for (int i = 0; i < frontier->count; i++)
        result->top[i] = predict(evaluator, &frontier->at[i].plan, &result->arena);
    evaluator_free(evaluator);
}

const char *const parts_space_names[] = { "core", "all", NULL };

bool search_picks_parts(const struct search_request *request)
{
    return request->system->stack.unstated.modules && request->objective != OBJECTIVE_MEMORY;
}

const char *const search_space_names[] = { "even", "megatron", "all", NULL };

void search_set_space(struct search_request *request, enum search_space space)
{
    const struct search_method *method =
        request->method ? search_method_find(request->method) : &search_methods[0];
    bool is_all = space == SEARCH_ALL;
    bool divides = method && search_method_divides(method);
    request->chunks = space == SEARCH_EVEN ? CHUNKS_EVEN : CHUNKS_MEGATRON;
    request->placement |= is_all;
    request->uneven |= is_all && divides;
    request->recompute_mixes |= is_all && divides;
    request->recompute_modules |= is_all && search_picks_parts(request);
}

const char *search_leaves_out(const struct search_request *request, struct arena *arena)
{
    const struct {
        bool is_out;
        const char *words;
    } rows[] = {
        { request->chunks == CHUNKS_EVEN,
          "divisions of layers that are not even (--space megatron)" },
        { !request->uneven, "uneven layers per stage (--uneven)" },
        { !request->recompute_mixes, "recompute per stage (--recompute-mixes)" },
        { !request->recompute_modules, "other modules to recompute (--recompute-modules all)" },
        { !request->placement, "other rank orders (--placement)" },
    };
    struct text out = { 0 };
    for (size_t i = 0; i < LENGTH(rows); i++)
        if (rows[i].is_out)
            text_add(&out, "%s%s", out.length > 0 ? ", " : "", rows[i].words);
    return text_keep(&out, arena);
}

struct search_request search_including(const struct search_request *request,
                                       const struct plan *plan)
{
    struct search_request wider = *request;
    const struct plan *base = &request->base;
    wider.also = plan;
    wider.base = *plan;
    for (int axis = 0; axis < num_axes; axis++)
        if (!axes[axis]->is_folded)
            wider.base.degree[axis] = base->degree[axis];
    wider.base.vpp = base->vpp;
    wider.base.microbatch = base->microbatch;
    wider.base.sp = base->sp;
    wider.base.zero = base->zero;
    wider.base.recompute = base->recompute;
    wider.base.chunk_layers = base->chunk_layers;
    wider.base.num_chunk_layers = base->num_chunk_layers;
    wider.base.mtp_place = base->mtp_place;
    return wider;
}

static const struct search_method *find_method(const char *name, struct err *err)
{
    const struct search_method *method = name ? search_method_find(name) : &search_methods[0];
    if (!method)
        err_set(err, ERR_USAGE, name, "there is no method \"%s\"", name);
    return method;
}

/* Rejects options about stages that the method does not support. */
static bool can_divide(const struct search_method *method, const struct search_request *request,
                       struct err *err)
{
    if (search_method_divides(method) || (!request->uneven && !request->recompute_mixes))
        return true;
    return err_set(
        err, ERR_USAGE, request->uneven ? "--uneven" : "--recompute-mixes",
        "expected the method bnb, dp or milp; the method %s searches only plans with equal stages",
        method->name);
}

static bool can_join(const struct search_method *method, const struct search_request *request,
                     struct err *err)
{
    const char *option = request->stage_types > 0         ? "--stage-types"
                         : request->same_recompute        ? "--same-recompute"
                         : request->host_memory_bytes > 0 ? "--host-memory"
                                                          : NULL;
    if (!option || search_method_joins(method))
        return true;
    return err_set(err, ERR_USAGE, option,
                   "expected the method milp; the method %s does not have this option",
                   method->name);
}

/* Rejects the objective memory together with the choice of modules to recompute, as these are
 * chosen for the shortest step. */
static bool can_pick(const struct search_request *request, struct err *err)
{
    if (!request->recompute_modules || request->objective != OBJECTIVE_MEMORY)
        return true;
    return err_set(
        err, ERR_USAGE, "--recompute-modules",
        "cannot be combined with --objective memory, as modules are chosen for the shortest step");
}

static int within(int value, int least, int most)
{
    return value < least ? least : value > most ? most : value;
}

/* Sets the memory limit of this search's plans; no other code sets it. The risk of running out of
 * memory rises with the predicted peak, so an accepted risk is the same as a limit on the peak. The
 * bounds and proofs of all methods therefore stay valid. */
static void plan_memory_of(const struct search_request *asked, struct system *system)
{
    struct gpu *gpu = &system->gpu;
    double planned_bytes = memory_fits_bytes(system);
    if (asked->max_memory_bytes > 0)
        planned_bytes = fmin(planned_bytes, asked->max_memory_bytes);
    system->fits_bytes = planned_bytes;
    if (asked->oom_risk > 0)
        planned_bytes = fmin(planned_bytes, memory_planned_bytes(system, asked->oom_risk));
    gpu->usable_bytes = gpu_usable_bytes(gpu);
    gpu->memory_bytes = planned_bytes;
}

bool search_prepare(const struct search_request *asked, struct arena *arena, struct prepared *out,
                    struct err *err)
{
    double start_s = clock_now_s();
    out->request = *asked;
    out->request.top = within(asked->top, 1, MAX_TOP);
    out->system = *asked->system;
    plan_memory_of(asked, &out->system);
    out->search = (struct search){ &out->request, &out->system, &out->space, start_s };
    struct space_request space = { .model = asked->model,
                                   .num_gpus = out->system.num_gpus,
                                   .base = &asked->base,
                                   .fix = asked->fix,
                                   .forbid = asked->forbid,
                                   .placement = asked->placement,
                                   .chunks = (enum chunk_space)asked->chunks,
                                   .recompute_modules = asked->recompute_modules,
                                   .also = asked->also,
                                   .system = &out->system };
    return space_new(&space, arena, &out->space, err) &&
           system_check(&out->system, &out->space.base, err);
}

static bool run_method(const struct search_request *request, struct search_result *result,
                       struct err *err)
{
    *result = (struct search_result){ 0 };
    const struct search_method *method = find_method(request->method, err);
    struct prepared prepared;
    if (!method || !can_divide(method, request, err) || !can_join(method, request, err) ||
        !can_pick(request, err) || !search_prepare(request, &result->arena, &prepared, err))
        return false;
    result->method = method->name;
    result->space_name = prepared.space.name;
    result->oom_risk = request->oom_risk;
    result->planned_bytes = prepared.system.gpu.memory_bytes;
    result->leaves_out = search_leaves_out(request, &result->arena);
    struct evaluators own = { 0 };
    if (!request->evaluators)
        prepared.request.evaluators = &own;
    bool ok = method->run(&prepared.search, result, err);
    evaluators_release(&own);
    result->elapsed_s = clock_now_s() - prepared.search.start_s;
    return ok;
}

/* Lists more and more of the fastest plans until the cheapest plan is proved to be among them. */
static bool run_for_cost(const struct search_request *asked, struct search_result *result,
                         struct err *err)
{
    enum { FIRST_TOP = 8 };
    const double least_s = 1e-6;
    struct search_request request = *asked;
    int top = within(asked->top, 1, MAX_TOP);
    double elapsed_s = 0;
    request.top = top > FIRST_TOP ? top : FIRST_TOP;
    for (;;) {
        if (!run_method(&request, result, err))
            return false;
        elapsed_s = result->elapsed_s += elapsed_s;
        bool has_more = result->num_top == request.top;
        bool is_settled = effective_sort(&request, result) || !has_more;
        result->proved_optimal &= is_settled;
        if (is_settled || request.top == MAX_TOP || result->timed_out || result->was_interrupted)
            break;
        if (asked->time_limit_s > 0)
            request.time_limit_s = fmax(asked->time_limit_s - elapsed_s, least_s);
        search_result_release(result);
        request.top = within(2 * request.top, 1, MAX_TOP);
    }
    if (result->num_top > top)
        result->num_top = top;
    return true;
}

bool search_run(const struct search_request *request, struct search_result *result, struct err *err)
{
    bool is_by_run = request->objective == OBJECTIVE_COST && request->model->tokens > 0 &&
                     !request->uneven && !request->recompute_mixes;
    return is_by_run ? run_for_cost(request, result, err) : run_method(request, result, err);
}

double search_gap(const struct search_result *result)
{
    if (result->num_top == 0 || result->lower_bound_s <= 0)
        return 1;
    return result->proved_optimal
               ? 0
               : fmax(0, 1 - result->lower_bound_s / result->top[0].prediction.step_s);
}

void search_result_release(struct search_result *result)
{
    arena_release(&result->arena);
    *result = (struct search_result){ 0 };
}
