#include "sim/cost/recompute_cost.h"

#include <math.h>

/* The repeated ops as an op list (sequence of operations). Each op waits for the last op of the new
 * list that is no later than its original `after`. */
static int repeated_ops(const struct replay_source *source, unsigned replays,
                        struct timed_op some[MAX_LIST_OPS])
{
    int num_up_to[MAX_LIST_OPS];
    int count = 0;
    struct replayed_regions regions = replayed_regions(replays);
    for (int i = 0; i < source->num_again; i++) {
        const struct timed_op *op = &source->again[i];
        if (regions.has[op->region] || regions.drops[op->source_region]) {
            some[count] = *op;
            some[count].after = op->after < 0 ? -1 : num_up_to[op->after] - 1;
            count++;
        }
        num_up_to[i] = count;
    }
    return count;
}

/* A collective other than an all-reduce keeps its input until the next op has run, as frameworks
 * run that op at the same time (Megatron Core, tensor_parallel/layers.py: the weight gradient
 * during the reduce-scatter of the input gradient) or before it. */
double most_moment_bytes(const struct replay_source *source, const double back[NUM_OP_REGIONS])
{
    double bytes = source->input_bytes;
    double most_bytes = 0;
    double leaving_bytes = 0; /* bytes that are freed after the next op */
    bool is_back[NUM_OP_REGIONS] = { [REGION_REST] = true, [REGION_NORM] = true };
    bytes += back[REGION_REST] + back[REGION_NORM];
    for (int i = 0; i < source->num_moments; i++) {
        const struct moment *moment = &source->moments[i];
        bytes += moment->made_bytes + (is_back[moment->region] ? 0 : back[moment->region]);
        is_back[moment->region] = true;
        most_bytes = fmax(most_bytes, bytes + moment->gradient_bytes);
        bytes -= leaving_bytes + (moment->is_collective ? 0 : moment->gone_bytes);
        leaving_bytes = moment->is_collective ? moment->gone_bytes : 0;
    }
    return most_bytes;
}

struct replay_cost replay_cost_of(const struct list_timer *timer,
                                  const struct replay_source *source, unsigned replays)
{
    struct replay_cost cost = { 0 };
    double freed_of[NUM_OP_REGIONS];
    struct timed_op some[MAX_LIST_OPS];
    cost.freed_bytes = ledger_freed(&source->ledger, replays, freed_of);
    cost.moment_bytes = most_moment_bytes(source, freed_of);
    if (source->has_backward)
        cost.list = timed_list_cost(timer, some, repeated_ops(source, replays, some));
    return cost;
}

struct replay_cost least_replay_cost(const struct replay_source *source, unsigned parts)
{
    struct replay_cost least = { .moment_bytes = HUGE_VAL };
    struct replay_sets sets;
    replays_list(parts, &sets);
    for (int i = 0; i < sets.count; i++) {
        double freed_of[NUM_OP_REGIONS];
        least.freed_bytes =
            fmax(least.freed_bytes, ledger_freed(&source->ledger, sets.at[i], freed_of));
        least.moment_bytes = fmin(least.moment_bytes, most_moment_bytes(source, freed_of));
    }
    return least;
}
