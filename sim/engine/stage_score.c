#include "sim/engine/simulate.h"

#include "sim/engine/work.h"

#include <assert.h>

/* The plan with lists that say what the stage has; nobody asks them of another stage. */
static struct plan give_share(const struct plan *plan, const struct stage_share *share, int *lists)
{
    struct plan given = *plan;
    int *layers = lists;
    int *recomputed = lists + plan->pp;
    layers[share->stage] = share->layers;
    recomputed[share->stage] = share->recomputed;
    given.chunk_layers = layers;
    given.num_chunk_layers = plan->pp;
    if (given.recompute == RECOMPUTE_BLOCK) {
        given.recompute_layers = recomputed;
        given.num_recompute_layers = plan->pp;
    }
    return given;
}

struct stage_score evaluate_stage(struct evaluator *evaluator, const struct plan *plan,
                                  const struct stage_share *share)
{
    assert(plan->vpp == 1 && share->stage < plan->pp && share->recomputed <= share->layers);
    struct work w = work_begin(evaluator, plan);
    struct plan given = give_share(plan, share, w.lists);
    w.plan = &given;
    struct memory_input memory = work_memory(&w);
    work_add_links(&w);
    struct chunk_time time = chunk_time(&w, share->stage);
    work_keep_time(&w, share->stage, &time);
    struct stage_tail tail = stage_tail(&w, share->stage);
    const double *duration_s = &w.duration_s[CHUNK_PASSES * share->stage];
    return (struct stage_score){ .forward_s = duration_s[CHUNK_FORWARD],
                                 .backward_s = duration_s[CHUNK_BACKWARD],
                                 .weight_s = duration_s[CHUNK_WEIGHT],
                                 .data_comm_s = tail.data_comm_s,
                                 .optimizer_s = tail.optimizer_s + tail.offload_s,
                                 .memory_bytes = stage_memory(&memory, share->stage).total_bytes,
                                 .lag_s = work_lag_s(&w, share->stage) };
}
