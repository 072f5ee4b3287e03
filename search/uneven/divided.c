/* Turns numbers of layers per stage into a plan. */
#include "search/uneven/divided.h"

#include <string.h>

static bool all_are(const int *values, int count, int value)
{
    for (int i = 0; i < count; i++)
        if (values[i] != value)
            return false;
    return true;
}

/* Sets the recomputed modules of each stage in the shortest form: none, one set for all, or a
 * list. */
static void set_parts(struct plan *plan, const int *parts)
{
    plan->stage_replays = parts;
    plan->num_stage_replays = plan->pp;
    if (all_are(parts, plan->pp, parts[0]))
        *plan = plan_of_stage(plan, 0);
}

/* Sets the recomputed layers of each stage in the shortest form: none, full, block with one N for
 * all, or a list. */
static void set_recompute(struct plan *plan, const int *layers, const int *recomputed)
{
    plan->recompute_layers = NULL;
    plan->num_recompute_layers = 0;
    if (plan_lists_parts(plan))
        set_parts(plan, recomputed);
    if (plan->recompute != RECOMPUTE_BLOCK)
        return;
    if (all_are(recomputed, plan->pp, 0)) {
        plan->recompute = RECOMPUTE_NONE;
    } else if (memcmp(layers, recomputed, (size_t)plan->pp * sizeof *layers) == 0) {
        plan->recompute = RECOMPUTE_FULL;
    } else {
        plan->recompute_layers = recomputed;
        plan->num_recompute_layers = all_are(recomputed, plan->pp, recomputed[0]) ? 1 : plan->pp;
    }
}

struct plan division_plan(const struct plan *point, const int *layers, const int *recomputed)
{
    struct plan plan = *point;
    set_recompute(&plan, layers, recomputed);
    if (all_are(layers, plan.pp, layers[0]))
        return plan;
    plan.chunk_layers = layers;
    plan.num_chunk_layers = plan.pp;
    return plan;
}

struct plan dealt_plan(const struct plan *point, const int *chunks)
{
    struct plan plan = *point;
    if (all_are(chunks, plan_chunks(point), chunks[0]))
        return plan;
    plan.chunk_layers = chunks;
    plan.num_chunk_layers = plan_chunks(point);
    return plan;
}

bool division_is_known(const struct space *space, const struct plan *plan)
{
    if (plan->recompute == RECOMPUTE_BLOCK || plan_mixes_parts(plan))
        return false;
    for (int i = 0; i < space->pp.count; i++)
        for (int j = 0; space->pp.at[i] == plan->pp && j < space->splits[i].count; j++)
            if (split_is_of(&space->splits[i].at[j], plan))
                return true;
    return false;
}

void division_recomputes(const struct stage_table *table, const int *layers, int *recomputed)
{
    for (int stage = 0, first = 0; stage < table->num_stages; first += layers[stage++])
        recomputed[stage] = stage_options(table, stage, first)[layers[stage]].recomputed;
}
