#include "sim/engine/simulate_part.h"

#include <assert.h>
#include <string.h>

/* The plan with lists of layers that describe only this stage. */
static struct plan give_share(const struct plan *plan, const struct stage_share *share, int *lists)
{
    struct plan given = *plan;
    int *layers = lists;
    int *recomputed = lists + plan->pp;
    if (share->stage > 0) {
        memset(layers, 0, (size_t)share->stage * sizeof *layers);
        layers[0] = share->first_layer;
    }
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

struct stage_common evaluate_stage_common(struct evaluator *evaluator, const struct plan *plan,
                                          struct arena *arena)
{
    struct work w = work_begin(evaluator, plan);
    struct memory_input memory = work_memory(&w);
    size_t stages = (size_t)plan->pp;
    struct boundary *boundaries = ARENA_ARRAY(arena, struct boundary, stages);
    work_add_links(&w);
    memcpy(boundaries, w.boundaries, stages * sizeof *boundaries);
    for (size_t i = 0; i < stages; i++)
        boundaries[i].message_s *= time_ratio_of(w.system, w.model);
    return (struct stage_common){ w.data, w.expert_data, boundaries, w.blocking,
                                  common_memory(&memory) };
}

static double share_bytes(const struct work *w, const struct stage_memory *common, int stage)
{
    struct memory_input input = work_memory(w);
    return stage_memory_with(&input, stage, common).total_bytes;
}

/* The score of a stage; `w` has the values that all stages share. */
static struct stage_score score(struct work *w, const struct stage_memory *common, int stage)
{
    struct chunk_time time = chunk_time(w, stage);
    work_keep_time(w, stage, &time);
    struct stage_tail tail = stage_tail(w, stage);
    const double *duration_s = &w->duration_s[CHUNK_PASSES * stage];
    double ratio = time_ratio_of(w->system, w->model);
    return (struct stage_score){ .forward_s = ratio * duration_s[CHUNK_FORWARD],
                                 .backward_s = ratio * duration_s[CHUNK_BACKWARD],
                                 .weight_s = ratio * duration_s[CHUNK_WEIGHT],
                                 .data_comm_s = ratio * tail.data_comm_s,
                                 .optimizer_s = ratio * (tail.optimizer_s + tail.offload_s),
                                 .memory_bytes = share_bytes(w, common, stage),
                                 .lag_s = ratio * work_lag_s(w, stage) };
}

double evaluate_stage_bytes(struct evaluator *evaluator, const struct plan *plan,
                            const struct stage_common *common, const struct stage_share *share)
{
    struct work w = work_begin(evaluator, plan);
    struct plan given = give_share(plan, share, w.lists);
    w.plan = &given;
    return share_bytes(&w, &common->memory, share->stage);
}

struct stage_score evaluate_stage_with(struct evaluator *evaluator, const struct plan *plan,
                                       const struct stage_common *common,
                                       const struct stage_share *share)
{
    assert(plan->vpp == 1 && share->stage < plan->pp && share->recomputed <= share->layers);
    struct work w = work_begin(evaluator, plan);
    struct plan given = give_share(plan, share, w.lists);
    w.plan = &given;
    w.data = common->data;
    w.expert_data = common->expert_data;
    w.blocking = common->blocking;
    memcpy(w.boundaries, common->boundaries, (size_t)plan->pp * sizeof *w.boundaries);
    for (int i = 0; i < plan->pp; i++)
        w.boundaries[i].message_s /= time_ratio_of(w.system, w.model);
    return score(&w, &common->memory, share->stage);
}

struct stage_score evaluate_stage(struct evaluator *evaluator, const struct plan *plan,
                                  const struct stage_share *share)
{
    struct arena arena = { 0 };
    struct stage_common common = evaluate_stage_common(evaluator, plan, &arena);
    struct stage_score scored = evaluate_stage_with(evaluator, plan, &common, share);
    arena_release(&arena);
    return scored;
}
