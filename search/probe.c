/* A probe is a short search on a changed request. It finds whether any plan fits, and which is the
 * best. */
#include "search/probe.h"

#include "search/method.h"
#include "search/search.h"

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

/* Searches only when some plan fits, because a search that finds nothing would also search
 * relaxations of the request, which are not needed here. Uneven plans may fit when no even plan
 * does. If the step time is limited, bounds rule out most plans before their memory is computed. */
struct probe probe_best(const struct search_request *asked, struct arena *arena)
{
    struct probe probe = probe_fits(asked);
    if (!probe.fits && !asked->uneven && !asked->recompute_mixes)
        return probe;
    struct search_request request = *asked;
    struct search_result result;
    struct err ignored = { 0 };
    request.progress = NULL;
    request.without_hints = true;
    request.method = NULL;
    request.top = 1;
    if (search_run(&request, &result, &ignored) && result.num_top > 0)
        probe.best = scored_plan_copy(&result.top[0], arena);
    probe.fits = result.num_top > 0;
    probe.least_s = result.lower_bound_s;
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
