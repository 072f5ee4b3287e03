/* Fills in a prediction: the memory of each stage, and the parts of the step's time, which are
 * those of the stage that is busy longest. */
#include "sim/engine/prediction_part.h"

#include "sim/engine/interval.h"
#include "sim/engine/memory_interval.h"
#include "sim/memory/memory.h"
#include "sim/plan/fold.h"

#include <math.h>

struct memory_input evaluation_memory(const struct evaluation *w)
{
    return (struct memory_input){ w->system,      w->model,     w->plan,
                                  w->pieces,      w->generator, w->num_microbatches,
                                  w->stage_pieces };
}

void fill_memory(const struct evaluation *w, struct stage_memory *stages, struct prediction *p)
{
    struct memory_input input = evaluation_memory(w);
    p->num_stages = w->plan->pp;
    p->stages = stages;
    plan_memory(&input, p->stages);
    if (evaluation_is_folded(w)) {
        p->num_stages = w->given->pp;
        for (int stage = w->plan->pp; stage < p->num_stages; stage++)
            p->stages[stage] = p->stages[folded_stage(p->num_stages, stage)];
    }
    for (int stage = 0; stage < w->plan->pp; stage++)
        if (p->stages[stage].total_bytes > p->peak_memory_bytes) {
            p->peak_memory_bytes = p->stages[stage].total_bytes;
            p->peak_stage = stage;
        }
    p->fits = p->peak_memory_bytes <= memory_fits_bytes(w->system);
    p->memory_low_bytes = memory_low_bytes(&w->system->stack, p->peak_memory_bytes);
    p->memory_high_bytes = memory_high_bytes(&w->system->stack, p->peak_memory_bytes);
    p->p_oom = memory_risk(w->system, p->peak_memory_bytes);
}

/* The stage whose passes take longest, with the messages that block them. */
static int busiest_stage(const struct evaluation *w)
{
    int busiest = 0;
    double busy_s = -1;
    for (int stage = 0; stage < w->plan->pp; stage++) {
        double stage_s = evaluation_passes_s(w, stage);
        if (stage_s > busy_s) {
            busy_s = stage_s;
            busiest = stage;
        }
    }
    return busiest;
}

/* A stage's idle time: the step minus all its work. Rounding residues count as 0. */
static double stage_idle_s(const struct evaluation *w, double step_s, int stage,
                           const struct stage_tail *tail)
{
    const double rounding = 1e-12;
    double idle_s = step_s - evaluation_passes_s(w, stage) - tail->data_comm_s - tail->optimizer_s -
                    tail->offload_s - evaluation_once_s(w);
    return idle_s > rounding * step_s ? idle_s : 0;
}

void fill_idle(const struct evaluation *w, double step_s, double *idle_s)
{
    for (int stage = 0; stage < w->plan->pp; stage++) {
        struct stage_tail tail = stage_tail(w, stage);
        idle_s[stage] = stage_idle_s(w, step_s, stage, &tail);
    }
    for (int stage = w->plan->pp; stage < w->given->pp; stage++)
        idle_s[stage] = idle_s[folded_stage(w->given->pp, stage)];
}

/* Subtracts the waiting that a gradient exchange saves in comparison with all-reduce. Measured
 * passes include that waiting, so each part is reduced in proportion to its size. */
static void spare(struct time_parts *passes, double spared_s, double busy_s)
{
    struct time_parts all = *passes;
    if (spared_s > 0)
        time_parts_add(passes, &all, -spared_s / busy_s);
}

void fill_time(const struct evaluation *w, struct prediction *p)
{
    p->busiest_stage = busiest_stage(w);
    for (int round = 0; round < w->plan->vpp; round++) {
        int chunk = evaluation_chunk(w, p->busiest_stage, round);
        struct chunk_time time = chunk_time(w, chunk);
        struct chunk_messages messages = blocking_messages(w, chunk);
        time.parts.pipeline_comm_s += messages.down_s + messages.up_s;
        time_parts_add(&p->time, &time.parts, w->num_microbatches);
    }
    p->time.expert_comm_s -= evaluation_spared_by_pairs_s(w, p->busiest_stage);
    spare(&p->time, evaluation_spared_s(w), evaluation_passes_s(w, p->busiest_stage));
    struct stage_tail tail = stage_tail(w, p->busiest_stage);
    p->time.data_comm_s += tail.data_comm_s;
    p->time.optimizer_s += tail.optimizer_s;
    p->time.other_s += tail.offload_s + w->system->stack.host.step_s + evaluation_packing_s(w) +
                       evaluation_reference_s(w);
    p->time.bubble_s = stage_idle_s(w, p->step_s, p->busiest_stage, &tail);
}

static double piece_flops(const struct piece_cost *piece)
{
    return piece->forward.flops + piece->backward.flops + piece->weight.flops;
}

static double layers_flops(const struct plan *plan, const struct piece_cost *layer, int layers,
                           int recomputed)
{
    double replayed = recomputed * layer->again.flops;
    if (plan->recompute == RECOMPUTE_SELECTIVE)
        replayed = layers * layer->replay.flops;
    return layers * piece_flops(layer) + replayed;
}

static double chunk_flops(const struct evaluation *w, int chunk)
{
    struct plan plan;
    struct evaluation own =
        evaluation_of_stage(w, placement_stage(plan_placement(w->plan), chunk), &plan);
    struct holding held = chunk_holding(own.plan, w->model, chunk);
    double flops = 0;
    for (int kind = 0; kind < own.pieces->num_kinds; kind++)
        flops +=
            layers_flops(own.plan, &own.pieces->at[kind], held.count[kind], held.recomputed[kind]);
    return flops;
}

/* FLOPs of the modules that predict later tokens, without their embedding and head. */
static double later_flops(const struct evaluation *w)
{
    struct plan plan;
    struct evaluation own = evaluation_of_stage(w, plan_later_stage(w->plan), &plan);
    int recomputed = plan_recomputes_later(own.plan) ? w->model->mtp : 0;
    return layers_flops(own.plan, &own.pieces->at[PIECE_LATER], w->model->mtp, recomputed);
}

/* FLOPs executed by all ranks in a step. */
static double executed_flops(const struct evaluation *w)
{
    const struct pieces *pieces = w->pieces;
    double flops = piece_flops(&pieces->at[PIECE_HEAD]);
    flops += w->model->mtp * (piece_flops(&pieces->at[PIECE_LATER_HEAD]) +
                              piece_flops(&pieces->at[PIECE_LATER_EMBEDDING]));
    flops += later_flops(w);
    double of_chunk = 0;
    for (int chunk = 0, chunks = plan_chunks(w->plan); chunk < chunks; chunk++) {
        if (!chunk_is_as_before(w->plan, w->model, chunk))
            of_chunk = chunk_flops(w, chunk);
        flops += of_chunk;
    }
    return flops * w->num_microbatches * plan_stage_ranks(w->plan);
}

void fill_rates(const struct evaluation *w, double model_flops, struct prediction *p)
{
    const struct system *system = w->system;
    enum dtype dtype = precision_dtype(w->plan->precision);
    double peak_flops = p->step_s * system->num_gpus * system->gpu.peak_flops_per_s[dtype];
    p->tokens_per_s = w->model->batch * w->model->seq / p->step_s;
    p->mfu = model_flops / peak_flops;
    p->hfu = executed_flops(w) / peak_flops;
    double half_width = interval_half_width(system, w->model, w->plan->tp, &p->time);
    p->step_low_s = p->step_s * exp(-half_width);
    p->step_high_s = p->step_s * exp(half_width);
}
