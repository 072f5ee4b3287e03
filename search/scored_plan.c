#include "search/scored_plan.h"

#include <string.h>

static const int *copy_ints(const int *from, int count, struct arena *arena)
{
    if (!from)
        return NULL;
    int *copy = ARENA_ARRAY(arena, int, (size_t)count);
    memcpy(copy, from, (size_t)count * sizeof *copy);
    return copy;
}

struct scored_plan scored_plan_copy(const struct scored_plan *from, struct arena *arena)
{
    struct scored_plan copy = *from;
    const struct plan *plan = &from->plan;
    size_t num_stages = (size_t)from->prediction.num_stages;
    copy.plan.chunk_layers = copy_ints(plan->chunk_layers, plan->num_chunk_layers, arena);
    copy.plan.recompute_layers =
        copy_ints(plan->recompute_layers, plan->num_recompute_layers, arena);
    copy.plan.stage_replays = copy_ints(plan->stage_replays, plan->num_stage_replays, arena);
    copy.prediction.stages = ARENA_ARRAY(arena, struct stage_memory, num_stages);
    memcpy(copy.prediction.stages, from->prediction.stages,
           num_stages * sizeof *copy.prediction.stages);
    return copy;
}
