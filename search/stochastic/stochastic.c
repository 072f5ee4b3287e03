/* Runs the random search methods: divides the budget among strategies, runs these in parallel, and
 * merges their results. */
#include "search/stochastic/stochastic.h"

#include "base/parallel.h"
#include "search/room.h"
#include "search/stochastic/strategy.h"

enum { MOST_PARTS = 2 };

/* Strategies that share a budget, each with its own random stream. */
struct parts {
    const struct search *search;
    struct encoding encoding;
    struct tuning tuning;
    uint64_t seed;
    int count;
    const struct strategy *strategy[MOST_PARTS];
    struct scorer scorer[MOST_PARTS];
};

/* Progress of the search. Only the caller's worker reports it. */
struct teller {
    const struct search_request *request;
    double before, part; /* fractions of the whole budget */
};

static void tell_progress(void *context, const struct scorer *scorer, double score, bool fits)
{
    (void)score, (void)fits;
    const struct teller *teller = context;
    teller->request->progress(teller->before + teller->part * scorer->spent / scorer->budget,
                              teller->request->progress_context);
}

static void run_part(void *context, size_t index, int worker)
{
    struct parts *parts = context;
    struct scorer *scorer = &parts->scorer[index];
    struct random rng = random_new(parts->seed, index);
    struct teller teller = { parts->search->request, (double)index / parts->count,
                             1.0 / parts->count };
    if (worker == 0 && teller.request->progress) {
        scorer->scored = tell_progress;
        scorer->context = &teller;
    }
    parts->strategy[index]->run(scorer, &parts->tuning, &rng);
    scorer->scored = NULL;
}

static void count_met(const struct parts *parts, const struct met *met, struct tally *tally,
                      struct frontier *best)
{
    struct ranked_plan ranked = { .step_s = met->step_s,
                                  .peak_memory_bytes = met->peak_memory_bytes };
    struct point point = encoding_point(&parts->encoding, met->key);
    encoding_plan(&parts->encoding, &point, &ranked.plan);
    if (met->rule >= 0) {
        tally_broken(tally, plan_rule_at(met->rule), 1);
    } else if (met->peak_memory_bytes <= parts->search->system->gpu.memory_bytes) {
        space_peak_bytes(parts->encoding.space, parts->scorer[0].evaluator,
                         parts->search->system->gpu.memory_bytes, &ranked.plan);
        tally_evaluated(tally, &ranked);
        frontier_offer(best, &ranked);
    } else {
        ranked.step_s = 0;
        tally_over_memory(tally, &ranked);
    }
}

/* Merges the points of all strategies into the table of the first. */
static struct tally count_all(struct parts *parts, struct frontier *best, struct arena *arena)
{
    struct tally tally = tally_new(arena);
    struct met_table *all = &parts->scorer[0].met;
    for (int i = 0; i < parts->count; i++) {
        const struct scorer *scorer = &parts->scorer[i];
        tally.timed_out |= scorer->tally.timed_out;
        tally.was_interrupted |= scorer->tally.was_interrupted;
        for (size_t slot = 0; i > 0 && slot < scorer->met.num_slots; slot++)
            if (scorer->met.is_taken[slot])
                met_add(all, &scorer->met.slots[slot]);
    }
    for (size_t slot = 0; slot < all->num_slots; slot++)
        if (all->is_taken[slot])
            count_met(parts, &all->slots[slot], &tally, best);
    return tally;
}

static void fill_result(struct parts *parts, struct search_result *result)
{
    const struct search *search = parts->search;
    struct frontier best =
        frontier_new(search->request->objective, search->request->top, &result->arena);
    struct tally tally = count_all(parts, &best, &result->arena);
    frontier_sort(&best);
    search_fill_counts(&tally, result);
    search_fill_top(search, &best, result);
    result->lower_bound_s = search_peak_floor_s(search);
    result->has_nearest = best.count == 0 && tally.has_least;
    if (result->has_nearest)
        result->nearest = search_predict(search, &tally.least.plan, &result->arena);
}

/* The budget of one strategy. If the strategies do not divide the budget evenly, the first
 * strategies score one more plan each. */
static double share_of(double budget, int index, int count)
{
    double least = budget - (double)((long long)budget % count);
    return least / count + (index < (long long)budget % count);
}

static bool run(const struct search *search, const char *const *names, int count,
                struct search_result *result)
{
    const struct search_request *request = search->request;
    double budget = request->budget > 0 ? request->budget : DEFAULT_BUDGET;
    struct parts parts = { .search = search,
                           .encoding = encoding_new(search->space, &result->arena),
                           .tuning = tuning_default(),
                           .seed = request->seed > 0 ? (uint64_t)request->seed : DEFAULT_SEED,
                           .count = count };
    for (int i = 0; i < count; i++) {
        parts.strategy[i] = strategy_find(names[i]);
        parts.scorer[i] = scorer_new(search, &parts.encoding, share_of(budget, i, count));
    }
    parallel_for(walk_jobs(request), (size_t)count, 1, run_part, &parts);
    fill_result(&parts, result);
    for (int i = 0; i < count; i++)
        scorer_release(&parts.scorer[i]);
    return true;
}

bool zeroth_order_run(const struct search *search, struct search_result *result, struct err *err)
{
    (void)err;
    return run(search, (const char *const[]){ "annealing", "evolution" }, 2, result);
}

bool reinforce_run(const struct search *search, struct search_result *result, struct err *err)
{
    (void)err;
    return run(search, (const char *const[]){ "reinforce" }, 1, result);
}

bool random_run(const struct search *search, struct search_result *result, struct err *err)
{
    (void)err;
    return run(search, (const char *const[]){ "random" }, 1, result);
}
