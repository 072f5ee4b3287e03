/* The method that predicts every plan of the space. */
#include "search/method.h"

static void keep(void *context, int worker, const struct ranked_plan *plan)
{
    struct frontier *frontiers = context;
    frontier_offer(&frontiers[worker], plan);
}

struct tally search_best(const struct search *search, int top, struct arena *arena,
                         struct frontier *best)
{
    int objective = search->request->objective;
    int jobs = walk_jobs(search->request);
    struct frontier *frontiers = ARENA_ARRAY(arena, struct frontier, (size_t)jobs);
    for (int i = 0; i < jobs; i++)
        frontiers[i] = frontier_new(objective, top, arena);
    struct walk walk = {
        .request = search->request,
        .system = search->system,
        .space = search->space,
        .start_s = search->start_s,
        .fits = keep,
        .context = frontiers,
    };
    struct tally tally = walk_run(&walk, arena);
    *best = frontiers[0];
    for (int i = 1; i < jobs; i++)
        for (int j = 0; j < frontiers[i].count; j++)
            frontier_offer(best, &frontiers[i].at[j]);
    frontier_sort(best);
    return tally;
}

bool exhaustive_run(const struct search *search, struct search_result *result, struct err *err)
{
    (void)err;
    struct frontier best;
    struct tally tally = search_best(search, search->request->top, &result->arena, &best);
    search_fill_counts(&tally, result);
    search_fill_top(search, &best, result);
    result->proved_optimal = tally_is_complete(&tally);
    result->lower_bound_s = result->proved_optimal ? tally.fastest_s : 0;
    if (result->num_top == 0 && result->proved_optimal)
        search_fill_nearest(search, &tally, result);
    return true;
}
