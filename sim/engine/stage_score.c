/* The time and memory of one stage, for searches that give stages different numbers of layers. A
 * pair is a forward and a backward that run as one unit. */
#include "sim/engine/simulate_part.h"

#include "models/blocks.h"

#include <assert.h>
#include <string.h>

/* The plan with the recompute of this stage, for the costs of its pieces (layers, embedding,
 * head). */
static struct plan with_parts(const struct plan *plan, const struct stage_share *share)
{
    struct plan listed = *plan;
    listed.stage_replays = &share->recomputed;
    listed.num_stage_replays = 1;
    return plan_lists_parts(plan) ? plan_of_stage(&listed, 0) : *plan;
}

/* The plan with lists of layers for this stage only. */
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
    struct evaluation w = evaluation_begin(evaluator, plan);
    struct memory_input memory = evaluation_memory(&w);
    size_t stages = (size_t)plan->pp;
    struct boundary *boundaries = ARENA_ARRAY(arena, struct boundary, stages);
    evaluation_add_links(&w);
    memcpy(boundaries, w.boundaries, stages * sizeof *boundaries);
    for (size_t i = 0; i < stages; i++)
        boundaries[i].message_s *= time_ratio_of(w.system, w.model);
    return (struct stage_common){ .data = w.data,
                                  .expert_data = w.expert_data,
                                  .boundaries = boundaries,
                                  .last_more_s = time_ratio_of(w.system, w.model) * w.last_more_s,
                                  .blocking = w.blocking,
                                  .validates = w.validates,
                                  .memory = common_memory(&memory) };
}

static double share_bytes(const struct evaluation *w, const struct stage_memory *common, int stage)
{
    struct memory_input input = evaluation_memory(w);
    return stage_memory_with(&input, stage, common).total_bytes;
}

/* The score of a stage; `w` has the values that all stages share. */
static struct stage_score score(struct evaluation *w, const struct stage_memory *common, int stage)
{
    struct chunk_time time = chunk_time(w, stage);
    evaluation_keep_time(w, stage, &time);
    struct stage_tail tail = stage_tail(w, stage);
    const double *duration_s = &w->duration_s[CHUNK_PASSES * stage];
    double ratio = time_ratio_of(w->system, w->model);
    return (struct stage_score){ .forward_s = ratio * duration_s[CHUNK_FORWARD],
                                 .backward_s = ratio * duration_s[CHUNK_BACKWARD],
                                 .weight_s = ratio * duration_s[CHUNK_WEIGHT],
                                 .data_comm_s = ratio * tail.data_comm_s,
                                 .optimizer_s = ratio * (tail.optimizer_s + tail.offload_s),
                                 .memory_bytes = share_bytes(w, common, stage),
                                 .lag_s = ratio * evaluation_lag_s(w, stage) };
}

double evaluate_stage_bytes(struct evaluator *evaluator, const struct plan *plan,
                            const struct stage_common *common, const struct stage_share *share)
{
    struct plan own = with_parts(plan, share);
    struct evaluation w = evaluation_begin(evaluator, &own);
    struct plan given = give_share(&own, share, w.lists);
    w.plan = &given;
    return share_bytes(&w, &common->memory, share->stage);
}

/* The plan under evaluation, with the values that all stages share. */
static struct evaluation begin_with(struct evaluator *evaluator, const struct plan *plan,
                                    const struct stage_common *common)
{
    struct evaluation w = evaluation_begin(evaluator, plan);
    w.data = common->data;
    w.expert_data = common->expert_data;
    w.blocking = common->blocking;
    memcpy(w.boundaries, common->boundaries, (size_t)plan->pp * sizeof *w.boundaries);
    for (int i = 0; i < plan->pp; i++)
        w.boundaries[i].message_s /= time_ratio_of(w.system, w.model);
    w.last_more_s = common->last_more_s / time_ratio_of(w.system, w.model);
    return w;
}

struct stage_score evaluate_stage_with(struct evaluator *evaluator, const struct plan *plan,
                                       const struct stage_common *common,
                                       const struct stage_share *share)
{
    assert(plan->vpp == 1 && share->stage < plan->pp);
    assert(share->recomputed <= share->layers || plan_lists_parts(plan));
    struct plan own = with_parts(plan, share);
    struct evaluation w = begin_with(evaluator, &own, common);
    struct plan given = give_share(&own, share, w.lists);
    w.plan = &given;
    return score(&w, &common->memory, share->stage);
}

/* Copies the durations of a timed chunk to the caller's array. */
static void keep_durations(struct evaluation *w, int chunk, const struct chunk_time *time,
                           double *duration_s)
{
    double ratio = time_ratio_of(w->system, w->model);
    evaluation_keep_time(w, chunk, time);
    for (int pass = 0; pass < CHUNK_PASSES; pass++)
        duration_s[pass] = ratio * w->duration_s[CHUNK_PASSES * chunk + pass];
}

/* Whether two chunks certainly take the same time, without messages, because the model has one kind
 * of layers. */
static bool are_same(const struct evaluation *w, int one, int other)
{
    return model_num_kinds(w->model) == 1 && w->plan->num_recompute_layers <= 1 &&
           !plan_has_end(w->plan, one) && !plan_has_end(w->plan, other) &&
           w->plan->chunk_layers[one] == w->plan->chunk_layers[other];
}

/* Times the chunks of a stage. Returns the time that pairs save, not yet multiplied by the learned
 * ratio of measured to predicted time. */
static double time_rounds(struct evaluation *w, int stage, double *duration_s)
{
    struct chunk_time time = { 0 };
    assert(!evaluation_is_folded(w) && w->plan->chunk_layers);
    for (int round = 0, before = -1; round < w->plan->vpp; round++) {
        int chunk = evaluation_chunk(w, stage, round);
        if (before < 0 || !are_same(w, chunk, before))
            time = chunk_time(w, chunk);
        keep_durations(w, chunk, &time, &duration_s[CHUNK_PASSES * round]);
        before = chunk;
    }
    evaluation_time_pairs_of(w, stage);
    return evaluation_spared_by_pairs_s(w, stage);
}

double evaluate_rounds_passes(struct evaluator *evaluator, const struct plan *plan,
                              const struct stage_common *common, int stage, double *duration_s)
{
    struct evaluation w = begin_with(evaluator, plan, common);
    return time_ratio_of(w.system, w.model) * time_rounds(&w, stage, duration_s);
}

struct rounds_score evaluate_rounds_with(struct evaluator *evaluator, const struct plan *plan,
                                         const struct stage_common *common, int stage,
                                         double *duration_s)
{
    struct evaluation w = begin_with(evaluator, plan, common);
    double spared_s = time_rounds(&w, stage, duration_s);
    struct stage_tail tail = stage_tail(&w, stage);
    double ratio = time_ratio_of(w.system, w.model);
    return (struct rounds_score){ .spared_s = ratio * spared_s,
                                  .data_comm_s = ratio * tail.data_comm_s,
                                  .optimizer_s = ratio * (tail.optimizer_s + tail.offload_s) };
}

double evaluate_rounds_bytes(struct evaluator *evaluator, const struct plan *plan,
                             const struct stage_common *common, int stage)
{
    struct evaluation w = evaluation_begin(evaluator, plan);
    return share_bytes(&w, &common->memory, stage);
}

void evaluate_chunk_with(struct evaluator *evaluator, const struct plan *plan,
                         const struct stage_common *common, int chunk, double *duration_s)
{
    struct evaluation w = begin_with(evaluator, plan, common);
    struct chunk_time time = chunk_time(&w, chunk);
    keep_durations(&w, chunk, &time, duration_s);
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
