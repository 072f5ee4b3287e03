#include "search/room.h"

#include "base/statistics.h"
#include "search/parts.h"

#include <math.h>

static bool may_group(const struct space *space, const struct plan *plan)
{
    return space->groups_layers && plan->recompute == RECOMPUTE_FULL;
}

double space_peak_bytes(const struct space *space, struct evaluator *evaluator, double most_bytes,
                        struct plan *plan)
{
    if (parts_are_open(space, plan))
        return parts_choose(space, evaluator, most_bytes, plan);
    if (!may_group(space, plan))
        return evaluate_peak_bytes(evaluator, plan);
    int interval = plan->recompute_every;
    double bytes = evaluate_fitting_bytes(evaluator, plan, most_bytes);
    if (plan->recompute == RECOMPUTE_FULL || forbidden_allows(&space->forbidden, "recompute", plan))
        return bytes;
    plan->recompute = RECOMPUTE_FULL;
    plan->recompute_every = interval;
    return evaluate_peak_bytes(evaluator, plan);
}

/* Full recompute may fit without the buffers that depend on the rank order, and not fit with them.
 * Then full:K, which needs less, replaces it. */
double space_least_bytes(const struct space *space, struct evaluator *evaluator,
                         const struct plan *plan)
{
    if (parts_are_open(space, plan))
        return evaluate_leanest_bytes(evaluator, plan);
    double bytes = evaluate_unplaced_bytes(evaluator, plan);
    return may_group(space, plan) ? fmin(bytes, evaluate_least_grouped_bytes(evaluator, plan))
                                  : bytes;
}

/* sum_floor is needed because the bound sums the bytes of all stages in another order than the peak
 * of one stage. */
double space_floor_bytes(struct block_floors *floors, struct evaluator *evaluator,
                         const struct plan *plan)
{
    double *bytes = &floors->bytes[plan->zero];
    if (*bytes == 0)
        *bytes = sum_floor(evaluate_state_floor_bytes(evaluator, plan));
    return *bytes;
}

/* MTP modules (multi-token prediction) may share their weights with the embedding or the head in
 * one place and not in another, so each place has its own bound. */
double space_least_floor_bytes(const struct space *space, struct evaluator *evaluator,
                               const struct plan *plan, double of_place[NUM_MTP_PLACES])
{
    struct plan cut = *plan;
    double least_bytes = HUGE_VAL;
    for (int place = 0; place < NUM_MTP_PLACES; place++) {
        struct block_floors floors = { 0 };
        cut.mtp_place = place;
        of_place[place] = HUGE_VAL;
        if (place == MTP_APART && !plan_may_place_apart(plan, space->model))
            continue;
        for (int i = 0; i < space->zero.count; i++) {
            cut.zero = space->zero.at[i];
            if (space_may_shard(space, &cut))
                of_place[place] =
                    fmin(of_place[place], space_floor_bytes(&floors, evaluator, &cut));
        }
        least_bytes = fmin(least_bytes, of_place[place]);
    }
    return least_bytes;
}
