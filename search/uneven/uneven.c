/* Searches the points of the lattice, that is plans whose division of layers over stages is open,
 * in rounds. In a round each worker finds the best division of a point by a dynamic program. A seed
 * is a division that is timed before any dynamic program. */
#include "search/uneven/uneven.h"

#include "base/parallel.h"
#include "models/blocks.h"
#include "search/evaluators.h"
#include "search/parts.h"
#include "search/uneven/deal.h"
#include "search/uneven/dealt.h"
#include "search/uneven/divided.h"
#include "search/uneven/expand.h"
#include "search/uneven/joint.h"
#include "search/uneven/lattice.h"

#include <math.h>
#include <string.h>

/* Points of a round use the best plan of earlier rounds, so the answer does not depend on the
 * number of workers. */
enum { ROUND = 8, SEED_ROUND = 64 };

/* Limit of timed divisions per point; when it is reached, the answer shows the gap between its time
 * and the lower bound. */
static const double most_timed = 2000;

/* The result of the search of one point, in a round. */
struct point_result {
    struct arena arena;
    struct tally tally;
    struct stage_table table;
    struct expansion expansion;
    bool never_fits;
    struct err err;
};

/* A division timed before any dynamic program: an early good plan leaves fewer points to search. */
struct seed {
    bool fits;
    struct ranked_plan ranked;
};

struct rounds {
    const struct search *search;
    const struct uneven_way *way;
    struct lattice lattice;
    bool is_listed;     /* whether the lattice has every point */
    struct seed *seeds; /* [point] */
    size_t next;
    double limit_s; /* step time of the best plan before the round */
    struct evaluators *evaluators;
    struct point_result results[ROUND];
};

/* A point whose divisions are being timed. */
struct timing {
    const struct search *search;
    const struct lattice_point *point;
    const struct seed *seed;
    struct evaluator *evaluator;
    struct point_result *result;
    int *recomputed; /* [stage] */
    int *chunks;     /* [chunk] */
};

/* The step time above which plans are not needed. */
static double limit_of(const struct search *search, const struct frontier *best)
{
    double limit_s = search->request->limit_s;
    double fastest_s = frontier_fastest_s(best);
    return limit_s > 0 ? fmin(fastest_s, limit_s) : fastest_s;
}

/* --- seeds ------------------------------------------------------------------------------------ */

/* The nearly even division of a point. With block:N no layer is recomputed or, if that does not
 * fit, every layer. */
static void set_seed(const struct lattice_point *point, bool recomputes, struct plan *plan)
{
    *plan = point->plan;
    if (plan->recompute == RECOMPUTE_BLOCK)
        plan->recompute = recomputes ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    *plan = plan_is_dealt(plan) ? dealt_plan(plan, point->nearly_even)
                                : division_plan(plan, point->nearly_even, NULL);
}

static bool is_seed(const struct seed *seed, const struct plan *plan)
{
    return seed->fits && plan_equal(&seed->ranked.plan, plan);
}

static bool seed_fits(struct rounds *rounds, struct evaluator *evaluator, struct seed *seed)
{
    seed->ranked.peak_memory_bytes = evaluate_peak_bytes(evaluator, &seed->ranked.plan);
    return seed->ranked.peak_memory_bytes <= rounds->search->system->gpu.memory_bytes &&
           joint_holds(rounds->search, &seed->ranked.plan);
}

static struct evaluator *evaluator_of(struct rounds *rounds, int worker)
{
    return evaluators_of(rounds->evaluators, worker);
}

static void time_seed(void *context, size_t index, int worker)
{
    struct rounds *rounds = context;
    const struct lattice_point *point = &rounds->lattice.at[rounds->next + index];
    struct seed *seed = &rounds->seeds[rounds->next + index];
    struct evaluator *evaluator = evaluator_of(rounds, worker);
    if (plan_lists_parts(&point->plan)) /* the table of stages chooses the recomputed modules */
        return;
    set_seed(point, false, &seed->ranked.plan);
    if (division_is_known(rounds->search->space, &seed->ranked.plan))
        return;
    seed->fits = seed_fits(rounds, evaluator, seed);
    if (!seed->fits && point->plan.recompute == RECOMPUTE_BLOCK) {
        set_seed(point, true, &seed->ranked.plan);
        seed->fits = seed_fits(rounds, evaluator, seed);
    }
    if (seed->fits)
        seed->ranked.step_s = evaluate_step_s(evaluator, &seed->ranked.plan);
}

/* --- one point -------------------------------------------------------------------------------- */

/* Sets `recomputed` to the `given` numbers of layers or, if `given` is NULL, to those of the
 * table. */
static void read_recomputed(const struct stage_table *table, const int *layers, const int *given,
                            int *recomputed)
{
    if (given)
        memcpy(recomputed, given, (size_t)table->num_stages * sizeof *recomputed);
    else
        division_recomputes(table, layers, recomputed);
}

/* Whether another point has the plan. That is the case if the point lists recomputed modules for
 * each stage, and no stage of the plan repeats any. */
static bool is_of_another(const struct lattice_point *point, const struct plan *plan)
{
    return plan_lists_parts(&point->plan) && plan->recompute == RECOMPUTE_NONE;
}

/* Whether the division is one of the point's counted divisions. */
static bool is_counted(const struct timing *timing, const struct plan *plan)
{
    return !division_is_known(timing->search->space, plan) && !is_seed(timing->seed, plan) &&
           !is_of_another(timing->point, plan);
}

static double time_plan(struct timing *timing, const struct plan *plan)
{
    struct ranked_plan ranked = { *plan, 0, 0 };
    ranked.step_s = evaluate_step_s(timing->evaluator, plan);
    if (is_counted(timing, plan))
        tally_evaluated(&timing->result->tally, &ranked);
    return ranked.step_s;
}

/* Time of a step with this division of the layers; HUGE_VAL if its peak exceeds the memory. With
 * several kinds of layers, the peak is known only for the whole division. */
static double time_dealt(struct timing *timing, const int *layers)
{
    const struct search *search = timing->search;
    const struct plan *point = &timing->point->plan;
    struct deal deal = deal_of(point, search->space->model, search->space->head_layers);
    deal_all(&deal, layers, timing->chunks);
    struct plan plan = dealt_plan(point, timing->chunks);
    if (evaluate_peak_bytes(timing->evaluator, &plan) <= search->system->gpu.memory_bytes)
        return time_plan(timing, &plan);
    timing->result->tally.over_memory += is_counted(timing, &plan);
    return HUGE_VAL;
}

static double time_division(void *context, const int *layers, const int *recomputed)
{
    struct timing *timing = context;
    if (plan_is_dealt(&timing->point->plan))
        return time_dealt(timing, layers);
    read_recomputed(&timing->result->table, layers, recomputed, timing->recomputed);
    struct plan plan = division_plan(&timing->point->plan, layers, timing->recomputed);
    return time_plan(timing, &plan);
}

/* A lower bound of the step times of all divisions in which every stage has at least these layers.
 * It takes the order of the passes into account. */
static double least_dealt(void *context, const int *layers)
{
    struct timing *timing = context;
    const struct space *space = timing->search->space;
    const struct stage_table *table = &timing->result->table;
    const struct plan *point = &timing->point->plan;
    struct deal deal = deal_of(point, space->model, space->head_layers);
    deal_all(&deal, layers, timing->chunks);
    struct plan plan = *point;
    plan.chunk_layers = timing->chunks;
    plan.num_chunk_layers = plan_chunks(point);
    return evaluate_passes_s(timing->evaluator, &plan) + table->longest_optimizer_s + table->step_s;
}

/* Whether least_dealt returns a lower bound for such points. */
static bool has_order_bound(const struct stage_table *table, const struct space *space)
{
    return table->in_any_order && !table->validates && model_num_kinds(space->model) == 1;
}

static bool must_stop(void *context)
{
    struct timing *timing = context;
    return tally_must_stop(&timing->result->tally, timing->search->request,
                           timing->search->start_s);
}

static struct stage_table table_of(struct rounds *rounds, const struct plan *plan,
                                   struct evaluator *evaluator, struct arena *arena)
{
    const struct search *search = rounds->search;
    const struct model *model = search->space->model;
    struct stage_request request = { .model = model,
                                     .plan = plan,
                                     .memory_bytes = search->system->gpu.memory_bytes,
                                     .limit_s = rounds->limit_s,
                                     .step_s = search->system->stack.host.step_s };
    int sets[MOST_SETS];
    request.sets = sets;
    if (plan_lists_parts(plan))
        request.num_sets = parts_sets(search->space, plan, sets);
    request.head_layers = search->space->head_layers;
    if (plan_is_dealt(plan))
        return dealt_table_new(evaluator, &request, arena);
    request.layers = lattice_stage_layers(search, plan);
    request.step_s = lattice_once_s(evaluator, model, &search->system->stack, plan);
    return stage_table_new(evaluator, &request, arena);
}

static void look_into(void *context, size_t index, int worker)
{
    struct rounds *rounds = context;
    const struct search *search = rounds->search;
    const struct lattice_point *point = &rounds->lattice.at[rounds->next + index];
    struct evaluator *evaluator = evaluator_of(rounds, worker);
    struct point_result *result = &rounds->results[index];
    struct arena *arena = &result->arena;
    result->tally = tally_new(arena);
    result->table = table_of(rounds, &point->plan, evaluator, arena);
    result->never_fits = result->table.longest_pass_s == HUGE_VAL && !result->table.is_limited;
    struct timing timing = { .search = search,
                             .point = point,
                             .seed = &rounds->seeds[rounds->next + index],
                             .evaluator = evaluator,
                             .result = result,
                             .recomputed = ARENA_ARRAY(arena, int, (size_t)point->plan.pp),
                             .chunks = ARENA_ARRAY(arena, int, (size_t)plan_chunks(&point->plan)) };
    struct divided_point request = { .search = search,
                                     .plan = &point->plan,
                                     .evaluator = evaluator,
                                     .expansion = { .table = &result->table,
                                                    .limit_s = rounds->limit_s,
                                                    .most_timed = most_timed,
                                                    .time_s = time_division,
                                                    .must_stop = must_stop,
                                                    .context = &timing } };
    if (has_order_bound(&result->table, search->space))
        request.expansion.least_s = least_dealt;
    result->expansion = rounds->way->divide(&request, arena, &result->err);
}

/* --- rounds ----------------------------------------------------------------------------------- */

static int *copy_list(const int *list, int count, struct arena *arena)
{
    int *copy = ARENA_ARRAY(arena, int, (size_t)count);
    memcpy(copy, list, (size_t)count * sizeof *copy);
    return copy;
}

/* The fastest division that was found, with lists in the arena. */
static struct plan best_plan(const struct rounds *rounds, const struct lattice_point *point,
                             const struct point_result *result, struct arena *arena)
{
    int pp = point->plan.pp;
    if (plan_is_dealt(&point->plan)) {
        const struct space *space = rounds->search->space;
        struct deal deal = deal_of(&point->plan, space->model, space->head_layers);
        int *chunks = ARENA_ARRAY(arena, int, (size_t)plan_chunks(&point->plan));
        deal_all(&deal, result->expansion.layers, chunks);
        return dealt_plan(&point->plan, chunks);
    }
    int *layers = copy_list(result->expansion.layers, pp, arena);
    int *recomputed = ARENA_ARRAY(arena, int, (size_t)pp);
    read_recomputed(&result->table, layers, result->expansion.recomputed, recomputed);
    return division_plan(&point->plan, layers, recomputed);
}

static void offer_best(struct rounds *rounds, const struct lattice_point *point,
                       const struct point_result *result, struct frontier *best,
                       struct arena *arena)
{
    struct ranked_plan ranked = { .plan = best_plan(rounds, point, result, arena),
                                  .step_s = result->expansion.step_s };
    if (division_is_known(rounds->search->space, &ranked.plan) ||
        is_seed(&rounds->seeds[point - rounds->lattice.at], &ranked.plan) ||
        is_of_another(point, &ranked.plan))
        return;
    ranked.peak_memory_bytes = evaluate_peak_bytes(evaluator_of(rounds, 0), &ranked.plan);
    frontier_offer(best, &ranked);
}

/* Number of the next points that may have a faster plan, at most `most`. */
static size_t round_length(const struct rounds *rounds, size_t most)
{
    const struct lattice *lattice = &rounds->lattice;
    size_t length = 0;
    while (length < most && rounds->next + length < lattice->count &&
           lattice->at[rounds->next + length].floor_s < rounds->limit_s * (1 - proof_tolerance))
        length++;
    return length;
}

static void keep_result(struct rounds *rounds, size_t index, struct uneven *out,
                        struct tally *tally, struct frontier *best, struct arena *arena)
{
    const struct lattice_point *point = &rounds->lattice.at[rounds->next + index];
    struct point_result *result = &rounds->results[index];
    double evaluated = result->tally.evaluated;
    if (result->never_fits)
        result->tally.over_memory = point->divisions;
    else if (result->expansion.is_proved)
        result->tally.bounded = point->divisions - evaluated - result->tally.over_memory;
    tally_add(tally, &result->tally);
    if (out->err.code == ERR_NONE)
        out->err = result->err;
    if (result->expansion.found)
        offer_best(rounds, point, result, best, arena);
    if (!result->expansion.is_proved) {
        out->is_proved = false;
        out->open_s = fmin(out->open_s, result->expansion.open_s);
    }
    arena_rewind(&result->arena);
    *result = (struct point_result){ .arena = result->arena };
}

/* Counts the divisions of points that were not searched. */
static void leave_rest(const struct rounds *rounds, struct uneven *out, struct tally *tally)
{
    const struct lattice *lattice = &rounds->lattice;
    if (!tally_is_complete(tally)) {
        out->is_proved = false;
        if (!rounds->is_listed)
            out->open_s = search_peak_floor_s(rounds->search);
        else if (rounds->next < lattice->count)
            out->open_s = fmin(out->open_s, lattice->at[rounds->next].floor_s);
        return;
    }
    for (size_t i = rounds->next; i < lattice->count; i++)
        tally->bounded += lattice->at[i].divisions;
}

static bool must_stop_now(const struct rounds *rounds, struct tally *tally)
{
    return tally_must_stop(tally, rounds->search->request, rounds->search->start_s);
}

/* Offers a seed to the best plans. The seed has been timed, so it is no longer counted as a
 * division that a bound excludes. */
static void keep_seed(struct rounds *rounds, size_t index, struct tally *tally,
                      struct frontier *best)
{
    const struct seed *seed = &rounds->seeds[index];
    if (!seed->fits)
        return;
    rounds->lattice.at[index].divisions--;
    tally_evaluated(tally, &seed->ranked);
    frontier_offer(best, &seed->ranked);
}

static void run_seeds(struct rounds *rounds, struct tally *tally, struct frontier *best)
{
    int jobs = walk_jobs(rounds->search->request);
    for (size_t length; !must_stop_now(rounds, tally); rounds->next += length) {
        rounds->limit_s = limit_of(rounds->search, best);
        length = round_length(rounds, SEED_ROUND);
        if (length == 0)
            break;
        parallel_for(jobs, length, 1, time_seed, rounds);
        for (size_t i = 0; i < length; i++)
            keep_seed(rounds, rounds->next + i, tally, best);
    }
    rounds->next = 0;
}

static struct uneven run_rounds(struct rounds *rounds, struct tally *tally, struct frontier *best,
                                struct arena *arena)
{
    struct uneven out = { .is_proved = true, .open_s = HUGE_VAL };
    int jobs = walk_jobs(rounds->search->request);
    while (tally_is_complete(tally) && out.err.code == ERR_NONE) {
        rounds->limit_s = limit_of(rounds->search, best);
        size_t length = round_length(rounds, ROUND);
        if (length == 0)
            break;
        parallel_for(jobs, length, 1, look_into, rounds);
        for (size_t i = 0; i < length; i++)
            keep_result(rounds, i, &out, tally, best, arena);
        rounds->next += length;
    }
    leave_rest(rounds, &out, tally);
    return out;
}

/* A new frontier with the plans of a sorted one, which accepts further plans. */
static struct frontier reopened(const struct frontier *sorted, struct arena *arena)
{
    struct frontier frontier = frontier_new(sorted->objective, sorted->capacity, arena);
    for (int i = 0; i < sorted->count; i++)
        frontier_offer(&frontier, &sorted->at[i]);
    return frontier;
}

struct uneven uneven_search(const struct search *search, const struct uneven_way *way,
                            struct tally *tally, struct frontier *best, struct arena *arena)
{
    if (search->space->base.chunk_layers)
        return (struct uneven){ .is_proved = true, .open_s = HUGE_VAL };
    if (lattice_lacks(search))
        return (struct uneven){ .is_proved = false, .open_s = search_peak_floor_s(search) };
    int jobs = walk_jobs(search->request);
    struct frontier merged = reopened(best, arena);
    struct rounds *rounds = ARENA_NEW(arena, struct rounds);
    rounds->search = search;
    rounds->way = way;
    rounds->evaluators = search->request->evaluators;
    evaluators_begin(rounds->evaluators, jobs, search->system, search->space->model);
    rounds->lattice = lattice_new(search, rounds->evaluators,
                                  limit_of(search, best) * (1 - proof_tolerance), tally, arena);
    rounds->is_listed = tally_is_complete(tally);
    rounds->seeds = ARENA_ARRAY(arena, struct seed, rounds->lattice.count);
    run_seeds(rounds, tally, &merged);
    struct uneven out = run_rounds(rounds, tally, &merged, arena);
    for (int i = 0; i < ROUND; i++)
        arena_release(&rounds->results[i].arena);
    frontier_sort(&merged);
    *best = merged;
    return out;
}
