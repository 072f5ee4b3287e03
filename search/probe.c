#include "search/probe.h"

#include "search/method.h"

#include <string.h>

struct probe probe_fits(const struct search_request *asked)
{
    struct arena arena = { 0 };
    struct err ignored = { 0 };
    struct search_request request = *asked;
    struct prepared prepared;
    struct probe probe = { 0 };
    request.progress = NULL;
    if (search_prepare(&request, &arena, &prepared, &ignored)) {
        struct walk walk = { .request = prepared.search.request,
                             .system = prepared.search.system,
                             .space = prepared.search.space,
                             .start_s = prepared.search.start_s,
                             .only_whether_any_fits = true };
        struct tally tally = walk_run(&walk, &arena);
        probe.fits = tally.evaluated > 0;
        probe.timed_out = tally.timed_out && !probe.fits;
        probe.was_interrupted = tally.was_interrupted;
    }
    arena_release(&arena);
    return probe;
}

static const int *copy_ints(const int *from, int count, struct arena *arena)
{
    if (!from)
        return NULL;
    int *copy = ARENA_ARRAY(arena, int, (size_t)count);
    memcpy(copy, from, (size_t)count * sizeof *copy);
    return copy;
}

/* With all that it points at. */
static struct scored_plan copy_plan(const struct scored_plan *from, struct arena *arena)
{
    struct scored_plan copy = *from;
    const struct plan *plan = &from->plan;
    size_t num_stages = (size_t)from->prediction.num_stages;
    copy.plan.chunk_layers = copy_ints(plan->chunk_layers, plan->num_chunk_layers, arena);
    copy.plan.recompute_layers =
        copy_ints(plan->recompute_layers, plan->num_recompute_layers, arena);
    copy.prediction.stages = ARENA_ARRAY(arena, struct stage_memory, num_stages);
    memcpy(copy.prediction.stages, from->prediction.stages,
           num_stages * sizeof *copy.prediction.stages);
    return copy;
}

/* Only when something fits is it searched for: a search that finds nothing looks for what to relax,
 * which is more than was asked. Uneven plans may fit where no even one does. */
struct probe probe_best(const struct search_request *asked, struct arena *arena)
{
    struct probe probe = probe_fits(asked);
    if (!probe.fits && !asked->uneven && !asked->recompute_mixes)
        return probe;
    struct search_request request = *asked;
    struct search_result result;
    struct err ignored = { 0 };
    request.progress = NULL;
    request.method = NULL;
    request.top = 1;
    if (search_run(&request, &result, &ignored) && result.num_top > 0)
        probe.best = copy_plan(&result.top[0], arena);
    probe.fits = result.num_top > 0;
    probe.timed_out = result.timed_out;
    probe.was_interrupted = result.was_interrupted;
    search_result_release(&result);
    return probe;
}

struct search_request probe_on(const struct search_request *request, int num_gpus,
                               struct system *system)
{
    struct search_request other = *request;
    *system = *request->system;
    system->num_gpus = num_gpus;
    other.system = system;
    return other;
}
