/* The costs of a plan's instructions, as the event engine (sim/engine/events.h) needs them. A pair
 * is a forward and a backward that run as one unit. A mirrored plan holds two copies of the model;
 * it is timed as an equivalent plan with half the stages, its folded plan. */
#include "sim/engine/evaluation.h"

#include "sim/cost/group_links.h"
#include "sim/cost/waiting.h"
#include "sim/engine/data_parallel.h"
#include "sim/exchange/averaging.h"
#include "sim/plan/fold.h"
#include "sim/plan/lowering.h"
#include "sim/plan/ranks.h"

#include <math.h>

/* A chunk's cost without messages, which have instructions of their own. Recompute has its own
 * instruction when whole layers are recomputed; selective recompute stays in the backward. */
static struct chunk_cost chunk_cost(const struct evaluation *w, int chunk)
{
    struct chunk_time time = chunk_time(w, chunk);
    double ratio = time_ratio_of(w->system, w->model);
    double recompute_s = 0;
    if (w->plan->recompute >= RECOMPUTE_FULL)
        recompute_s = fmin(time.backward_s, w->slowdown * time.parts.recompute_s);
    return (struct chunk_cost){ .forward_s = ratio * time.forward_s,
                                .recompute_s = ratio * recompute_s,
                                .input_s = ratio * (time.backward_s - recompute_s),
                                .weight_s = ratio * time.weight_s };
}

/* Times of the pairs, without the messages and the recompute of their passes. */
static void add_pairs(const struct evaluation *w, struct chunk_cost *chunks)
{
    double ratio = time_ratio_of(w->system, w->model);
    for (int stage = 0; w->generator->pairs && stage < w->plan->pp; stage++)
        for (int round = 0; round < 2; round++) {
            int backward = evaluation_chunk(w, stage, round),
                forward = evaluation_chunk(w, stage, 1 - round);
            chunks[backward].pair_s = chunks[forward].forward_s + chunks[backward].input_s +
                                      chunks[backward].weight_s - ratio * w->spared_s[backward];
        }
}

/* The costs of a mirrored plan's own stages, from those of its folded plan (sim/plan/fold.h). */
static void unfold(const struct evaluation *w, struct step_cost *cost, struct arena *arena)
{
    int stages = w->given->pp;
    double ratio = time_ratio_of(w->system, w->model);
    struct placement both = { stages, 2, &placement_mirrored };
    struct chunk_cost *chunks = ARENA_ARRAY(arena, struct chunk_cost, 2 * (size_t)stages);
    struct stage_cost *once = ARENA_ARRAY(arena, struct stage_cost, (size_t)stages);
    struct boundary *boundaries = ARENA_ARRAY(arena, struct boundary, (size_t)stages);
    for (int chunk = 0; chunk < 2 * stages; chunk++)
        chunks[chunk] = cost->chunks[placement_part(both, chunk)];
    evaluation_given_boundaries(w, boundaries);
    for (int stage = 0; stage < stages; stage++) {
        once[stage] = cost->stages[folded_stage(stages, stage)];
        boundaries[stage].message_s *= ratio;
    }
    cost->chunks = chunks;
    cost->stages = once;
    cost->boundaries = boundaries;
}

/* In the instruction list a chunk's reduction takes only its exposed time. The transfers of ZeRO-2
 * and 3, layer by layer, are inside the chunks' times. Gathers overlap the next step's first
 * forwards, so in the list they take only their exposed time. */
static struct stage_cost stage_cost(const struct evaluation *w, int stage)
{
    struct stage_tail tail = stage_tail(w, stage);
    bool is_beside = exchange_start(&w->plan->exchange) == START_STEP;
    double mix_s = is_beside ? tail.mix_s : tail.visible_mix_s;
    double ratio = time_ratio_of(w->system, w->model);
    return (struct stage_cost){ .reduce_s = ratio * tail.reduce_s / w->plan->vpp,
                                .mix_s = ratio * mix_s / w->plan->vpp,
                                .gather_s = ratio * tail.visible_gather_s / w->plan->vpp,
                                .tied_s = ratio * tail.tied_s,
                                .optimizer_s = ratio * (tail.optimizer_s + tail.offload_s) };
}

static enum wire wire_of(const struct comm_group *group)
{
    return group->num_nodes > 1 ? WIRE_NETWORK : WIRE_NODE;
}

static enum wire data_wire(const struct data_groups *groups)
{
    enum wire inside = wire_of(&groups->shard);
    return inside == WIRE_NETWORK ? inside : wire_of(&groups->replicas);
}

static int data_members(const struct data_groups *groups)
{
    const struct comm_group *shard = &groups->shard;
    return shard->num_nodes > 1 ? shard->num_nodes : shard->num_ranks;
}

static struct jitter jitter_of(const struct evaluation *w)
{
    const struct plan *plan = w->plan;
    const struct cluster *cluster = &w->system->cluster;
    return (struct jitter){
        .chip_spread = w->system->profile.chip_spread,
        .pass_spread = w->system->profile.pass_spread,
        .wire_spread = { cluster->levels[0].spread,
                         cluster->levels[cluster->num_levels > 1 ? 1 : 0].spread },
        .num_gpus = w->system->num_gpus,
        .stage_ranks = plan_stage_ranks(w->given),
        .pass_ranks = plan_stage_ranks(plan) / plan->dp,
        .data_members = data_members(&w->data),
        .data_replicas = exchange_waits_for(&plan->exchange, plan->dp,
                                            averaging_share(&plan->exchange, w->model)),
    };
}

/* The recurrence (pipeline.h) adds the time of a blocking message to the pass that sends it. The
 * event engine has no buffers, so blocking sends would deadlock in zero-bubble orders, whose stages
 * run ahead by more than one message. For these orders sends do not block. */
struct step_cost evaluation_cost(const struct evaluation *w, struct arena *arena)
{
    const struct plan *plan = w->plan;
    const struct profile *profile = &w->system->profile;
    struct chunk_cost *chunks = ARENA_ARRAY(arena, struct chunk_cost, (size_t)plan_chunks(plan));
    struct stage_cost *stages = ARENA_ARRAY(arena, struct stage_cost, (size_t)plan->pp);
    struct boundary *boundaries = ARENA_ARRAY(arena, struct boundary, (size_t)plan->pp);
    double ratio = time_ratio_of(w->system, w->model);
    for (int chunk = 0; chunk < plan_chunks(plan); chunk++)
        chunks[chunk] = chunk_cost(w, chunk);
    add_pairs(w, chunks);
    for (int stage = 0; stage < plan->pp; stage++) {
        stages[stage] = stage_cost(w, stage);
        boundaries[stage] = w->boundaries[stage];
        boundaries[stage].message_s *= ratio;
    }
    struct step_cost cost = {
        .chunks = chunks,
        .stages = stages,
        .boundaries = boundaries,
        .last_more_s = ratio * w->last_more_s,
        .data_wire = data_wire(&w->data),
        .slowdowns = { profile->overlap_compute_slowdown, profile->overlap_comm_slowdown },
        .blocking = w->blocking && !generator_splits(w->generator),
        .validates = w->validates,
        .reduces_last = !plan_overlaps(plan, &w->system->stack, OVERLAP_GRAD),
        .overhead_s = ratio * (w->system->stack.host.step_s + evaluation_packing_s(w) +
                               evaluation_reference_s(w)),
        .spared_s = ratio * evaluation_spared_s(w),
        .jitter = jitter_of(w),
    };
    if (evaluation_is_folded(w))
        unfold(w, &cost, arena);
    return cost;
}
