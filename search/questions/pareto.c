/* Finds the front: the plans that no other plan dominates in GPUs, time and memory. */
#include "search/questions/pareto.h"

#include "base/clock.h"
#include "search/counts.h"
#include "search/sweep.h"
#include "sim/plan/ranks.h"

#include <stdlib.h>

/* Plans that may be on the front; dominated plans are removed when the array is full. */
struct contenders {
    struct ranked_plan *at;
    size_t count, capacity;
};

static struct pareto_point point_of(const struct ranked_plan *plan)
{
    return (
        struct pareto_point){ { plan_ranks(&plan->plan), plan->step_s, plan->peak_memory_bytes } };
}

static void keep_front(struct contenders *all)
{
    struct pareto_point *points = arena_grow(NULL, (all->count + 1) * sizeof *points);
    bool *is_on_front = arena_grow(NULL, all->count + 1);
    for (size_t i = 0; i < all->count; i++)
        points[i] = point_of(&all->at[i]);
    pareto_mark(points, all->count, is_on_front);
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++)
        if (is_on_front[i])
            all->at[kept++] = all->at[i];
    all->count = kept;
    free(is_on_front);
    free(points);
}

/* If more than half of a full array is on the front, the capacity doubles. So dominated plans are
 * rarely removed, and each plan is compared only a few times. */
static void add(struct contenders *all, const struct ranked_plan *plan)
{
    enum { LEAST_ROOM = 1024 };
    if (all->count == all->capacity) {
        keep_front(all);
        if (2 * all->count >= all->capacity) {
            all->capacity = 2 * all->capacity + LEAST_ROOM;
            all->at = arena_grow(all->at, all->capacity * sizeof *all->at);
        }
    }
    all->at[all->count++] = *plan;
}

static void gather(void *context, const struct ranked_plan *plan)
{
    add(context, plan);
}

static void count_tally(const struct tally *tally, struct pareto_result *result)
{
    result->evaluated += tally->evaluated;
    result->bounded += tally->bounded;
    result->candidates += tally->evaluated + tally->bounded + tally->over_memory;
    for (int i = 0; i < plan_num_rules(); i++)
        result->candidates += tally->broken[i];
    result->timed_out |= tally->timed_out;
    result->was_interrupted |= tally->was_interrupted;
}

/* Sorts by GPUs, then time; ties by layout. */
static int by_gpus(const void *a, const void *b)
{
    const struct ranked_plan *left = a;
    const struct ranked_plan *right = b;
    int gpus = plan_ranks(&left->plan) - plan_ranks(&right->plan);
    if (gpus != 0)
        return gpus;
    return ranked_before(OBJECTIVE_TIME, left, right) ? -1 : 1;
}

static bool is_same_point(const struct ranked_plan *a, const struct ranked_plan *b)
{
    return plan_ranks(&a->plan) == plan_ranks(&b->plan) && a->step_s == b->step_s &&
           a->peak_memory_bytes == b->peak_memory_bytes;
}

static void keep_one_of_each(struct contenders *front)
{
    size_t kept = 0;
    for (size_t i = 0; i < front->count; i++)
        if (kept == 0 || !is_same_point(&front->at[kept - 1], &front->at[i]))
            front->at[kept++] = front->at[i];
    front->count = kept;
}

/* The plans of one number of GPUs are sorted by rising time and falling memory, so the last plan
 * kept needs the least memory. */
static void keep_savings(struct contenders *front, double least_saving_bytes)
{
    size_t kept = 0;
    for (size_t i = 0; i < front->count; i++) {
        const struct ranked_plan *last = kept > 0 ? &front->at[kept - 1] : NULL;
        const struct ranked_plan *plan = &front->at[i];
        if (!last || plan_ranks(&last->plan) != plan_ranks(&plan->plan) ||
            last->peak_memory_bytes - plan->peak_memory_bytes >= least_saving_bytes)
            front->at[kept++] = *plan;
    }
    front->count = kept;
}

static void predict_front(const struct search_request *asked, const struct contenders *front,
                          struct pareto_result *result)
{
    struct prepared on_count;
    int num_gpus = 0;
    result->at = ARENA_ARRAY(&result->arena, struct pareto_plan, front->count);
    for (size_t i = 0; i < front->count; i++) {
        const struct plan *plan = &front->at[i].plan;
        if (plan_ranks(plan) != num_gpus) {
            num_gpus = plan_ranks(plan);
            counts_prepare(asked, num_gpus, 0, &result->arena, &on_count);
        }
        struct scored_plan scored = search_predict(&on_count.search, plan, &result->arena);
        result->at[result->count++] = (struct pareto_plan){ num_gpus, scored };
    }
}

/* Numbers of GPUs are swept in rising order, as a plan on fewer GPUs may dominate a later one.
 * Plans may point to the lists of fixed words, which live as long as the result. */
static void sweep_counts(const struct search_request *asked, struct contenders *front,
                         struct pareto_result *result)
{
    double start_s = clock_now_s();
    struct stairs stairs = { 0 };
    int jobs = walk_jobs(asked);
    struct evaluator **evaluators = ARENA_ARRAY(&result->arena, struct evaluator *, (size_t)jobs);
    for (int i = 0; i < result->num_counts; i++) {
        struct prepared prepared;
        if (asked->progress)
            asked->progress((double)i / result->num_counts, asked->progress_context);
        if (counts_prepare(asked, result->counts[i], start_s, &result->arena, &prepared)) {
            struct sweep sweep = { &prepared.search, &stairs, evaluators, gather, front };
            struct tally tally = sweep_run(&sweep, &result->arena);
            count_tally(&tally, result);
        }
    }
    for (int i = 0; i < jobs; i++)
        evaluator_free(evaluators[i]);
    stairs_release(&stairs);
    result->elapsed_s = clock_now_s() - start_s;
}

bool search_pareto(const struct search_request *request, double least_saving_bytes,
                   struct pareto_result *result, struct err *err)
{
    *result = (struct pareto_result){ 0 };
    struct prepared prepared;
    if (!search_prepare(request, &result->arena, &prepared, err))
        return false;
    const struct system *system = request->system;
    struct values counts = counts_usual(&system->cluster, system->num_gpus, &result->arena);
    result->space_name = prepared.space.name;
    result->counts = counts.at;
    result->num_counts = counts.count;
    struct contenders front = { 0 };
    sweep_counts(request, &front, result);
    keep_front(&front);
    if (front.count > 0)
        qsort(front.at, front.count, sizeof *front.at, by_gpus);
    keep_one_of_each(&front);
    result->num_on_front = (int)front.count;
    keep_savings(&front, least_saving_bytes);
    predict_front(request, &front, result);
    free(front.at);
    return true;
}

void pareto_result_release(struct pareto_result *result)
{
    arena_release(&result->arena);
    *result = (struct pareto_result){ 0 };
}
