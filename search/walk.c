/* Checks and scores every plan of a space. A block is a set of plans with equal rank order, degrees
 * of all axes and microbatch (search/space.h). */
#include "search/walk.h"

#include "base/parallel.h"
#include "models/trained_weights.h"
#include "search/evaluators.h"
#include "search/parts.h"
#include "search/room.h"
#include "sim/memory/state_memory.h"

#include <stdatomic.h>
#include <string.h>

/* The results of one worker. */
struct worker {
    struct evaluator *evaluator;
    struct tally tally;
};

struct run {
    const struct walk *walk;
    struct worker *workers;
    struct evaluators *evaluators;
    size_t num_blocks;
    atomic_size_t blocks_done;
    atomic_bool stop;
};

/* The visitor's context: the walk and the worker that runs it. */
struct visit {
    struct run *run;
    struct worker *worker;
    int id;
    int at[MAX_RANK_ORDERS][MAX_AXES];
    int num_orders; /* number of rank orders per candidate: 1, or the number of orders in `at` */
    struct block_floors floors;
};

int walk_jobs(const struct search_request *request)
{
    return request->jobs > 0 ? request->jobs : parallel_cores();
}

static void count_broken(void *context, const struct plan_rule *rule, double count)
{
    struct visit *visit = context;
    tally_broken(&visit->worker->tally, rule, count * visit->num_orders);
}

static bool must_stop(struct run *run, struct tally *tally)
{
    if (tally_must_stop(tally, run->walk->request, run->walk->start_s))
        atomic_store_explicit(&run->stop, true, memory_order_relaxed);
    return atomic_load_explicit(&run->stop, memory_order_relaxed);
}

static bool score(void *context, const struct plan *plan)
{
    struct visit *visit = context;
    const struct walk *walk = visit->run->walk;
    struct tally *tally = &visit->worker->tally;
    struct ranked_plan ranked = { .plan = *plan };
    double memory_bytes = walk->system->gpu.memory_bytes;
    double floor_bytes = space_floor_bytes(&visit->floors, visit->worker->evaluator, plan);
    if (floor_bytes > memory_bytes && tally_has_leaner(tally, floor_bytes)) {
        tally->over_memory++;
        return true;
    }
    ranked.peak_memory_bytes =
        space_peak_bytes(walk->space, visit->worker->evaluator, memory_bytes, &ranked.plan);
    if (ranked.peak_memory_bytes > memory_bytes) {
        tally_over_memory(tally, &ranked);
        return true;
    }
    ranked.step_s = evaluate_step_s(visit->worker->evaluator, &ranked.plan);
    tally_evaluated(tally, &ranked);
    if (walk->fits)
        walk->fits(walk->context, visit->id, &ranked);
    return true;
}

/* Whether a plan that needs at least floor_bytes can be skipped: it does not fit, and it is not
 * needed as the plan of least memory. */
static bool is_too_large(const struct visit *visit, double floor_bytes)
{
    const struct walk *walk = visit->run->walk;
    return floor_bytes > walk->system->gpu.memory_bytes &&
           (!walk->tells_why || tally_has_leaner(&visit->worker->tally, floor_bytes));
}

/* Checks memory for all rank orders at once: most plans that do not fit exceed memory even without
 * the buffers that depend on the order. */
static bool look_for_room(void *context, const struct plan *plan)
{
    struct visit *visit = context;
    struct evaluator *evaluator = visit->worker->evaluator;
    struct tally *tally = &visit->worker->tally;
    double memory_bytes = visit->run->walk->system->gpu.memory_bytes;
    const struct space *space = visit->run->walk->space;
    if (is_too_large(visit, space_floor_bytes(&visit->floors, evaluator, plan)) ||
        is_too_large(visit, space_least_bytes(space, evaluator, plan))) {
        tally->over_memory += visit->num_orders;
        return true;
    }
    for (int i = 0; i < visit->num_orders; i++) {
        struct ranked_plan ranked = { .plan = *plan };
        memcpy(ranked.plan.order, visit->at[i], sizeof ranked.plan.order);
        ranked.peak_memory_bytes = space_peak_bytes(space, evaluator, memory_bytes, &ranked.plan);
        if (ranked.peak_memory_bytes <= memory_bytes) {
            tally->evaluated++;
            atomic_store_explicit(&visit->run->stop, true, memory_order_relaxed);
            return false;
        }
        tally_over_memory(tally, &ranked);
    }
    return true;
}

static void walk_block(void *context, size_t block, int id)
{
    struct run *run = context;
    struct worker *worker = &run->workers[id];
    const struct walk *walk = run->walk;
    if (must_stop(run, &worker->tally))
        return;
    worker->evaluator = evaluators_of(run->evaluators, id);
    struct visit visit = { .run = run, .worker = worker, .id = id, .num_orders = 1 };
    struct visitor visitor = { score, count_broken, &visit };
    if (walk->only_whether_any_fits) {
        visitor.visit = look_for_room;
        visit.num_orders = space_site_orders(walk->space, block, visit.at);
    }
    if (visit.num_orders > 0)
        space_walk_block(walk->space, block, &visitor);
    size_t done = atomic_fetch_add_explicit(&run->blocks_done, 1, memory_order_relaxed) + 1;
    if (id == 0 && walk->request->progress)
        walk->request->progress((double)done / (double)run->num_blocks,
                                walk->request->progress_context);
}

/* Whether all GPUs together can hold one copy of gradients and optimizer state, which every plan
 * needs. */
static bool state_may_fit(const struct walk *walk)
{
    const struct plan *base = &walk->space->base;
    const struct model *model = walk->space->model;
    double least_bytes = plan_state_bytes(base, model).gradients;
    if (!plan_offloads(base, OFFLOAD_OPTIMIZER))
        least_bytes += least_optimizer_bytes(&walk->system->stack, base, model);
    double room_bytes = walk->system->gpu.memory_bytes * walk->system->num_gpus;
    return model_trained_parameters(model) * least_bytes <= room_bytes;
}

struct tally walk_run(const struct walk *walk, struct arena *arena)
{
    if (walk->only_whether_any_fits && !walk->tells_why &&
        !(state_may_fit(walk) && space_may_have_plans(walk->space)))
        return tally_new(arena);
    int jobs = walk_jobs(walk->request);
    struct evaluators own = { 0 };
    struct run run = { .walk = walk,
                       .evaluators = walk->request->evaluators ? walk->request->evaluators : &own,
                       .workers = ARENA_ARRAY(arena, struct worker, (size_t)jobs),
                       .num_blocks = walk->only_whether_any_fits ? space_num_sites(walk->space)
                                                                 : space_num_blocks(walk->space) };
    for (int i = 0; i < jobs; i++)
        run.workers[i].tally = tally_new(arena);
    evaluators_begin(run.evaluators, jobs, walk->system, walk->space->model);
    parallel_for(jobs, run.num_blocks, 1, walk_block, &run);
    evaluators_release(&own);
    struct tally sum = tally_new(arena);
    for (int i = 0; i < jobs; i++)
        tally_add(&sum, &run.workers[i].tally);
    return sum;
}
