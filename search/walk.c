#include "search/walk.h"

#include "base/parallel.h"

#include <stdatomic.h>
#include <time.h>

/* What one worker has met. */
struct worker {
    struct evaluator *evaluator;
    struct tally tally;
};

struct run {
    const struct walk *walk;
    struct worker *workers;
    size_t num_blocks;
    atomic_size_t blocks_done;
    atomic_bool stop;
};

/* A worker in a walk, for the visitor. */
struct visit {
    struct run *run;
    struct worker *worker;
    int id;
};

double walk_clock_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int walk_jobs(const struct search_request *request)
{
    return request->jobs > 0 ? request->jobs : parallel_cores();
}

static void count_broken(void *context, const struct plan_rule *rule, double count)
{
    struct visit *visit = context;
    visit->worker->tally.broken[rule - plan_rules] += count;
}

/* Memory has its own total order: bytes, then layout. */
static void keep_least(struct tally *tally, const struct ranked_plan *plan)
{
    if (!tally->has_least || ranked_before(OBJECTIVE_MEMORY, plan, &tally->least))
        tally->least = *plan;
    tally->has_least = true;
}

static bool must_stop(struct run *run, struct tally *tally)
{
    const struct search_request *request = run->walk->request;
    if (request->interrupted && request->interrupted())
        tally->was_interrupted = true;
    double limit_s = request->time_limit_s;
    if (limit_s > 0 && walk_clock_s() - run->walk->start_s > limit_s)
        tally->timed_out = true;
    if (!walk_is_complete(tally))
        atomic_store_explicit(&run->stop, true, memory_order_relaxed);
    return atomic_load_explicit(&run->stop, memory_order_relaxed);
}

static bool score(void *context, const struct plan *plan)
{
    struct visit *visit = context;
    const struct walk *walk = visit->run->walk;
    struct tally *tally = &visit->worker->tally;
    struct ranked_plan ranked = { .plan = *plan };
    ranked.peak_memory_bytes = evaluate_peak_bytes(visit->worker->evaluator, plan);
    if (ranked.peak_memory_bytes > walk->system->gpu.memory_bytes) {
        tally->over_memory++;
        keep_least(tally, &ranked);
        return true;
    }
    if (walk->only_whether_any_fits) {
        tally->evaluated++;
        atomic_store_explicit(&visit->run->stop, true, memory_order_relaxed);
        return false;
    }
    ranked.step_s = evaluate_step_s(visit->worker->evaluator, plan);
    if (tally->evaluated == 0 || ranked.step_s < tally->fastest_s)
        tally->fastest_s = ranked.step_s;
    tally->evaluated++;
    if (walk->fits)
        walk->fits(walk->context, visit->id, &ranked);
    return true;
}

static void walk_block(void *context, size_t block, int id)
{
    struct run *run = context;
    struct worker *worker = &run->workers[id];
    const struct walk *walk = run->walk;
    if (must_stop(run, &worker->tally))
        return;
    if (!worker->evaluator)
        worker->evaluator = evaluator_new(walk->system, walk->space->model);
    struct visit visit = { run, worker, id };
    struct visitor visitor = { score, count_broken, &visit };
    space_walk_block(walk->space, block, &visitor);
    size_t done = atomic_fetch_add_explicit(&run->blocks_done, 1, memory_order_relaxed) + 1;
    if (id == 0 && walk->request->progress)
        walk->request->progress((double)done / (double)run->num_blocks,
                                walk->request->progress_context);
}

static void add_tally(struct tally *sum, const struct tally *more)
{
    for (int i = 0; i < num_plan_rules; i++)
        sum->broken[i] += more->broken[i];
    sum->over_memory += more->over_memory;
    if (more->evaluated > 0 && (sum->evaluated == 0 || more->fastest_s < sum->fastest_s))
        sum->fastest_s = more->fastest_s;
    sum->evaluated += more->evaluated;
    if (more->has_least)
        keep_least(sum, &more->least);
    sum->timed_out |= more->timed_out;
    sum->was_interrupted |= more->was_interrupted;
}

struct tally walk_run(const struct walk *walk, struct arena *arena)
{
    int jobs = walk_jobs(walk->request);
    struct run run = { .walk = walk,
                       .workers = ARENA_ARRAY(arena, struct worker, (size_t)jobs),
                       .num_blocks = space_num_blocks(walk->space) };
    for (int i = 0; i < jobs; i++)
        run.workers[i].tally.broken = ARENA_ARRAY(arena, double, (size_t)num_plan_rules);
    parallel_for(jobs, run.num_blocks, 1, walk_block, &run);
    struct tally sum = { .broken = ARENA_ARRAY(arena, double, (size_t)num_plan_rules) };
    for (int i = 0; i < jobs; i++) {
        add_tally(&sum, &run.workers[i].tally);
        evaluator_free(run.workers[i].evaluator);
    }
    return sum;
}

bool walk_is_complete(const struct tally *tally)
{
    return !tally->timed_out && !tally->was_interrupted;
}
