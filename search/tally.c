#include "search/tally.h"

#include "base/clock.h"

struct tally tally_new(struct arena *arena)
{
    return (struct tally){ .broken = ARENA_ARRAY(arena, double, (size_t)plan_num_rules()) };
}

void tally_broken(struct tally *tally, const struct plan_rule *rule, double count)
{
    tally->broken[plan_rule_number(rule)] += count;
}

/* Keeps the plan of least memory. Ties are decided by layout. */
static void keep_least(struct tally *tally, const struct ranked_plan *plan)
{
    if (!tally->has_least || ranked_before(OBJECTIVE_MEMORY, plan, &tally->least))
        tally->least = *plan;
    tally->has_least = true;
}

void tally_over_memory(struct tally *tally, const struct ranked_plan *plan)
{
    tally->over_memory++;
    keep_least(tally, plan);
}

bool tally_has_leaner(const struct tally *tally, double floor_bytes)
{
    return tally->evaluated > 0 ||
           (tally->has_least && floor_bytes > tally->least.peak_memory_bytes);
}

static void keep_fastest(struct tally *tally, double step_s)
{
    if (tally->evaluated == 0 || step_s < tally->fastest_s)
        tally->fastest_s = step_s;
}

void tally_evaluated(struct tally *tally, const struct ranked_plan *plan)
{
    keep_fastest(tally, plan->step_s);
    tally->evaluated++;
}

void tally_add(struct tally *sum, const struct tally *more)
{
    for (int i = 0; i < plan_num_rules(); i++)
        sum->broken[i] += more->broken[i];
    sum->over_memory += more->over_memory;
    if (more->evaluated > 0)
        keep_fastest(sum, more->fastest_s);
    sum->evaluated += more->evaluated;
    sum->bounded += more->bounded;
    if (more->has_least)
        keep_least(sum, &more->least);
    sum->timed_out |= more->timed_out;
    sum->was_interrupted |= more->was_interrupted;
}

bool tally_must_stop(struct tally *tally, const struct search_request *request, double start_s)
{
    if (request->interrupted && request->interrupted())
        tally->was_interrupted = true;
    double limit_s = request->time_limit_s;
    if (limit_s > 0 && clock_now_s() - start_s > limit_s)
        tally->timed_out = true;
    return !tally_is_complete(tally);
}

bool tally_is_complete(const struct tally *tally)
{
    return !tally->timed_out && !tally->was_interrupted;
}
