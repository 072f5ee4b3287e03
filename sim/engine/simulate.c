/* The evaluator: predicts a plan, or only a lower bound of its time or memory. It keeps the costs
 * of pieces (layers, embedding, head) for later plans. */
#include "sim/engine/simulate_part.h"

#include "sim/cost/group_links.h"
#include "sim/cost/runtime.h"
#include "sim/cost/straggler.h"
#include "sim/engine/pieces_memo.h"
#include "sim/engine/prediction_part.h"
#include "sim/plan/fold.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct evaluator {
    const struct system *system;
    const struct model *model;
    /* system->num_gpus, kept because `system` may be freed before evaluator_turn_to gets the
     * next one */
    int num_gpus;
    double model_flops; /* of a step */
    double slowdown;    /* factor on compute times: synchronous ranks wait for the slowest chip */
    struct pieces_memo pieces;
    struct pipeline_cache pipeline;
    /* Room for one plan's arrays. */
    int num_chunks;
    int *lists;
    double *duration_s;
    double *pair_s, *spared_s;
    double *end_s, *lag_s;
    struct boundary *boundaries;
    struct stage_memory *stages;
    const struct pieces **stage_pieces;
    struct sets_memory sets;
    struct plan folded; /* the folded form of a mirrored plan (sim/plan/fold.h) */
    /* The last timed pipeline. It is kept because plans that differ only in sharding have the same
     * pipeline. */
    struct pipeline last;
    double *last_duration_s, *last_lag_s, *last_pair_s;
    double last_makespan_s;
    /* The last result of evaluate_unplaced_floor_s, and what it depends on. */
    struct least {
        const struct pieces *of; /* pieces for the plan's own rank order; NULL: none yet */
        int pp, dp, ep, num_orders;
        int orders[MAX_RANK_ORDERS][MAX_AXES];
        struct pieces pieces;
    } least;
};

struct evaluator *evaluator_new(const struct system *system, const struct model *model)
{
    struct evaluator *e = arena_grow(NULL, sizeof *e);
    *e = (struct evaluator){ .model = model };
    evaluator_turn_to(e, system);
    return e;
}

void evaluator_turn_to(struct evaluator *e, const struct system *system)
{
    if (e->system && e->num_gpus != system->num_gpus)
        pieces_memo_forget_places(&e->pieces);
    e->system = system;
    e->num_gpus = system->num_gpus;
    e->model_flops = model_step_flops(e->model, e->model->batch, e->model->seq);
    e->slowdown = straggler_slowdown(system->profile.chip_spread, system->num_gpus);
}

void evaluator_change_to(struct evaluator *e, const struct system *system)
{
    pieces_memo_release(&e->pieces);
    e->pieces = (struct pieces_memo){ 0 };
    e->least.of = NULL;
    evaluator_turn_to(e, system);
}

void evaluator_free(struct evaluator *e)
{
    if (!e)
        return;
    pipeline_cache_release(&e->pipeline);
    pieces_memo_release(&e->pieces);
    free(e->lists);
    free(e->duration_s);
    free(e->pair_s);
    free(e->spared_s);
    free(e->last_pair_s);
    free(e->last_duration_s);
    free(e->last_lag_s);
    free(e->end_s);
    free(e->lag_s);
    free(e->boundaries);
    free(e->stages);
    free(e->sets.at);
    free(e->stage_pieces);
    free(e);
}

static void make_room(struct evaluator *e, int num_chunks)
{
    if (num_chunks <= e->num_chunks)
        return;
    size_t n = (size_t)num_chunks;
    e->num_chunks = num_chunks;
    e->lists = arena_grow(e->lists, 2 * n * sizeof *e->lists);
    e->duration_s = arena_grow(e->duration_s, CHUNK_PASSES * n * sizeof *e->duration_s);
    e->pair_s = arena_grow(e->pair_s, n * sizeof *e->pair_s);
    e->spared_s = arena_grow(e->spared_s, n * sizeof *e->spared_s);
    e->last_pair_s = arena_grow(e->last_pair_s, n * sizeof *e->last_pair_s);
    e->last_duration_s =
        arena_grow(e->last_duration_s, CHUNK_PASSES * n * sizeof *e->last_duration_s);
    e->end_s = arena_grow(e->end_s, n * sizeof *e->end_s);
    e->lag_s = arena_grow(e->lag_s, n * sizeof *e->lag_s);
    e->last_lag_s = arena_grow(e->last_lag_s, n * sizeof *e->last_lag_s);
    e->boundaries = arena_grow(e->boundaries, n * sizeof *e->boundaries);
    e->stages = arena_grow(e->stages, n * sizeof *e->stages);
    e->sets.at = arena_grow(e->sets.at, n * sizeof *e->sets.at);
    e->stage_pieces = arena_grow(e->stage_pieces, n * sizeof(void *));
    e->last = (struct pipeline){ 0 };
}

static bool same_pipeline(const struct evaluator *e, const struct pipeline *p)
{
    size_t chunks = (size_t)p->shape.num_stages * (size_t)p->shape.chunks_per_stage;
    size_t durations = CHUNK_PASSES * chunks;
    bool has_pairs = p->generator->pairs != NULL;
    return e->last.generator == p->generator &&
           memcmp(&e->last.shape, &p->shape, sizeof p->shape) == 0 &&
           e->last.last_more_s == p->last_more_s &&
           memcmp(e->last_lag_s, p->lag_s, (size_t)p->shape.num_stages * sizeof(double)) == 0 &&
           memcmp(e->last_duration_s, p->duration_s, durations * sizeof(double)) == 0 &&
           (!has_pairs || (e->last.turn_s == p->turn_s &&
                           memcmp(e->last_pair_s, p->pair_s, chunks * sizeof(double)) == 0));
}

static double time_pipeline(struct evaluator *e, const struct evaluation *w)
{
    struct pipeline pipeline = {
        .generator = w->generator,
        .shape = { w->plan->pp, w->plan->vpp, w->num_microbatches, 0 },
        .duration_s = e->duration_s,
        .lag_s = e->lag_s,
        .last_more_s = w->blocking ? 0 : w->last_more_s,
        .pair_s = e->pair_s,
        .turn_s = evaluation_is_folded(w) ? evaluation_lag_s(w, evaluation_turn(w)) : 0,
    };
    for (int stage = 0; stage < w->plan->pp; stage++)
        e->lag_s[stage] = evaluation_lag_s(w, stage);
    if (same_pipeline(e, &pipeline))
        return e->last_makespan_s;
    e->last_makespan_s = pipeline_s(&e->pipeline, &pipeline, e->end_s);
    e->last = pipeline;
    size_t durations = CHUNK_PASSES * (size_t)plan_chunks(w->plan);
    memcpy(e->last_lag_s, e->lag_s, (size_t)w->plan->pp * sizeof(double));
    memcpy(e->last_duration_s, e->duration_s, durations * sizeof(double));
    if (w->generator->pairs)
        memcpy(e->last_pair_s, e->pair_s, (size_t)plan_chunks(w->plan) * sizeof(double));
    return e->last_makespan_s;
}

/* Each stage's reduction follows its last backward; the gradient norm waits for all stages, so the
 * optimizer starts when the last stage is ready. */
static double joined_step_s(const struct evaluator *e, const struct evaluation *w)
{
    double reduced_s = 0;
    double optimizer_s = 0;
    struct stage_tail tail = { 0 };
    for (int stage = 0; stage < w->plan->pp; stage++) {
        if (!stage_is_as_before(w->plan, w->model, stage))
            tail = stage_tail(w, stage);
        reduced_s = fmax(reduced_s, e->end_s[stage] + tail.data_comm_s);
        optimizer_s = fmax(optimizer_s, tail.optimizer_s + tail.offload_s);
    }
    return reduced_s + optimizer_s;
}

/* No stage waits for the global norm: each starts its next step after its own update. A step takes
 * as long as the slowest stage from its first forward to the end of its update. With tied tables
 * the first stage's update also waits for the last stage. */
static double validated_step_s(const struct evaluator *e, const struct evaluation *w)
{
    double own_s = 0;
    double start_s = 0;
    struct stage_tail first = stage_tail(w, 0);
    for (int stage = 0; stage < w->plan->pp; stage++) {
        struct stage_tail tail = stage_tail(w, stage);
        double end_s = e->end_s[stage] + tail.data_comm_s;
        own_s = fmax(own_s, end_s + tail.optimizer_s + tail.offload_s - start_s);
        if (tail.tied_s > 0)
            own_s = fmax(own_s, end_s + first.optimizer_s + first.offload_s);
        start_s += w->duration_s[CHUNK_PASSES * evaluation_chunk(w, stage, 0) + CHUNK_FORWARD] +
                   e->lag_s[stage];
    }
    return own_s;
}

/* The step's time without the learned ratio (time_ratio_of), by which all times are multiplied. */
static double unscaled_step_s(struct evaluator *e, const struct evaluation *w)
{
    time_pipeline(e, w);
    double stages_s = w->validates ? validated_step_s(e, w) : joined_step_s(e, w);
    return stages_s + evaluation_once_s(w);
}

/* Whether passes wait for the sends before them. They do unless messages between stages overlap
 * compute (OVERLAP_P2P). Megatron can overlap them only in the interleaved schedule, the project's
 * executor (exec/run/step.c) in every schedule. */
static bool waits_for_sends(const struct plan *plan, const struct stack *stack)
{
    bool can_overlap = plan->vpp > 1 || stack_runtime(stack)->sends_ahead;
    return !can_overlap || !plan_overlaps(plan, stack, OVERLAP_P2P);
}

/* The pieces of each stage, with the modules that selective recompute repeats there; NULL: all
 * stages repeat the same modules. */
static const struct pieces *const *find_stage_pieces(struct evaluator *e, const struct plan *plan,
                                                     const struct generator *generator)
{
    if (!plan_mixes_parts(plan))
        return NULL;
    for (int stage = 0; stage < plan->pp; stage++) {
        struct plan own = plan_of_stage(plan, stage);
        e->stage_pieces[stage] = pieces_memo_find(&e->pieces, e->system, e->model, &own, generator);
    }
    return e->stage_pieces;
}

struct evaluation evaluation_begin(struct evaluator *e, const struct plan *given)
{
    const struct generator *generator = generator_find(plan_schedule(given));
    const struct plan *plan = given;
    if (generator->rule && generator->rule->is_mirrored) {
        e->folded = plan_folded(given);
        plan = &e->folded;
        generator = generator_find(plan_schedule(plan));
    }
    make_room(e, plan_chunks(plan));
    return (struct evaluation){
        .system = e->system,
        .model = e->model,
        .plan = plan,
        .given = given,
        .pieces = pieces_memo_find(&e->pieces, e->system, e->model, plan, generator),
        .stage_pieces = find_stage_pieces(e, plan, generator),
        .generator = generator,
        .num_microbatches = plan_microbatches(plan, e->model->batch),
        .slowdown = e->slowdown,
        .lists = e->lists,
        .boundaries = e->boundaries,
        .duration_s = e->duration_s,
        .pair_s = e->pair_s,
        .spared_s = e->spared_s,
    };
}

void evaluation_add_links(struct evaluation *w)
{
    const struct plan *plan = w->plan;
    w->blocking = waits_for_sends(plan, &w->system->stack);
    w->validates = w->system->stack.pipeline.post_validation && generator_splits(w->generator);
    w->data = network_data_groups(w->system, plan);
    if (w->model->experts > 0)
        w->expert_data = network_expert_data_groups(w->system, plan);
    w->last_more_s = fill_boundaries(w, w->boundaries);
}

static void time_passes(struct evaluation *w)
{
    const struct plan *plan = w->plan;
    struct chunk_time time = { 0 };
    for (int chunk = 0; chunk < plan_chunks(plan); chunk++) {
        if (!chunk_is_as_before(plan, w->model, chunk))
            time = chunk_time(w, chunk);
        evaluation_keep_time(w, chunk, &time);
    }
    evaluation_time_pairs(w);
}

static void time_chunks(struct evaluation *w)
{
    evaluation_add_links(w);
    time_passes(w);
}

static void scale_time(const struct system *system, const struct model *model, struct prediction *p)
{
    double ratio = time_ratio_of(system, model);
    struct time_parts before = p->time;
    p->step_s *= ratio;
    p->time = (struct time_parts){ 0 };
    time_parts_add(&p->time, &before, ratio);
}

struct prediction evaluate(struct evaluator *e, const struct plan *plan)
{
    struct evaluation w = evaluation_begin(e, plan);
    struct prediction p = { .num_microbatches = plan_microbatches(plan, e->model->batch) };
    fill_memory(&w, e->stages, &p);
    time_chunks(&w);
    p.step_s = unscaled_step_s(e, &w);
    fill_time(&w, &p);
    scale_time(e->system, e->model, &p);
    fill_rates(&w, e->model_flops, &p);
    return p;
}

void evaluate_idle(struct evaluator *e, const struct plan *plan, double *idle_s)
{
    struct evaluation w = evaluation_begin(e, plan);
    time_chunks(&w);
    fill_idle(&w, unscaled_step_s(e, &w), idle_s);
    for (int stage = 0; stage < plan->pp; stage++)
        idle_s[stage] *= time_ratio_of(e->system, e->model);
}

double evaluate_peak_bytes(struct evaluator *e, const struct plan *plan)
{
    struct evaluation w = evaluation_begin(e, plan);
    struct memory_input input = evaluation_memory(&w);
    return plan_peak_bytes(&input);
}

const struct sets_memory *evaluate_sets_memory(struct evaluator *e, const struct plan *plan)
{
    struct plan core = *plan;
    core.replays = 0;
    struct evaluation w = evaluation_begin(e, &core);
    struct memory_input input = evaluation_memory(&w);
    plan_sets_memory(&input, pieces_memo_sets(&e->pieces, w.system, w.model, w.plan, w.generator),
                     &e->sets);
    return &e->sets;
}

double evaluate_fitting_bytes(struct evaluator *e, struct plan *plan, double most_bytes)
{
    struct evaluation w = evaluation_begin(e, plan);
    struct memory_input input = evaluation_memory(&w);
    double bytes = plan_peak_bytes(&input);
    if (plan->recompute != RECOMPUTE_FULL || bytes <= most_bytes)
        return bytes;
    int interval = plan_lean_interval(&input, most_bytes, &bytes);
    if (interval > 1) {
        plan->recompute = RECOMPUTE_EVERY;
        plan->recompute_every = interval;
    }
    return bytes;
}

double evaluate_step_s(struct evaluator *e, const struct plan *plan)
{
    struct evaluation w = evaluation_begin(e, plan);
    time_chunks(&w);
    return time_ratio_of(e->system, e->model) * unscaled_step_s(e, &w);
}

double evaluate_passes_s(struct evaluator *e, const struct plan *plan)
{
    struct evaluation w = evaluation_begin(e, plan);
    time_chunks(&w);
    return time_ratio_of(e->system, e->model) * time_pipeline(e, &w);
}

double evaluate_bound_s(struct evaluator *e, const struct plan *plan)
{
    struct evaluation w = evaluation_begin(e, plan);
    time_chunks(&w);
    return time_ratio_of(e->system, e->model) * evaluation_bound_s(&w);
}

double evaluate_floor_s(struct evaluator *e, const struct plan *plan)
{
    struct plan whole = *plan;
    whole.zero = 0;
    whole.offloads &= ~(1u << OFFLOAD_ACTIVATIONS); /* offload copies only add time, and recompute
                                                       reduces them, so the bound leaves them out */
    struct evaluation w = evaluation_begin(e, &whole);
    time_chunks(&w);
    return time_ratio_of(e->system, e->model) * evaluation_floor_s(&w);
}

double evaluate_work_floor_s(struct evaluator *e, const struct plan *plan)
{
    struct evaluation w = evaluation_begin(e, plan);
    return time_ratio_of(e->system, e->model) * evaluation_mean_floor_s(&w);
}

double evaluate_layer_floor_s(struct evaluator *e, const struct plan *plan)
{
    struct evaluation w = evaluation_begin(e, plan);
    return time_ratio_of(e->system, e->model) * evaluation_layer_floor_s(&w);
}

double evaluate_unplaced_bytes(struct evaluator *e, const struct plan *plan)
{
    struct evaluation w = evaluation_begin(e, plan);
    struct memory_input input = evaluation_memory(&w);
    return plan_unplaced_bytes(&input);
}

double evaluate_state_floor_bytes(struct evaluator *e, const struct plan *plan)
{
    struct plan small = *plan;
    /* With microbatch 1 the pieces have the same weights, and more plans share their cached
     * costs. */
    small.microbatch = 1;
    struct evaluation w = evaluation_begin(e, &small);
    struct memory_input input = evaluation_memory(&w);
    input.plan = plan;
    input.num_microbatches = plan_microbatches(plan, e->model->batch);
    return plan_state_floor_bytes(&input);
}

double evaluate_first_stage_bytes(struct evaluator *e, const struct plan *plan)
{
    struct evaluation w = evaluation_begin(e, plan);
    struct memory_input input = evaluation_memory(&w);
    return plan_first_stage_bytes(&input);
}

double evaluate_least_grouped_bytes(struct evaluator *e, const struct plan *plan)
{
    struct evaluation w = evaluation_begin(e, plan);
    struct memory_input input = evaluation_memory(&w);
    return plan_least_grouped_bytes(&input);
}

/* If recomputed values are counted separately (pass_most_bytes), a set of modules that frees more
 * may need more memory. */
double evaluate_leanest_bytes(struct evaluator *e, const struct plan *plan)
{
    struct plan leanest = *plan;
    if (stack_runtime(&e->system->stack)->walks_passes)
        return evaluate_state_floor_bytes(e, plan);
    leanest.replays = REPLAYS_LEANEST;
    return evaluate_unplaced_bytes(e, &leanest);
}

static void lower_piece(struct piece_cost *least, const struct piece_cost *piece)
{
    least->forward.total_s = fmin(least->forward.total_s, piece->forward.total_s);
    least->backward.total_s = fmin(least->backward.total_s, piece->backward.total_s);
    least->weight.total_s = fmin(least->weight.total_s, piece->weight.total_s);
    least->again.total_s = fmin(least->again.total_s, piece->again.total_s);
    least->replay.total_s = fmin(least->replay.total_s, piece->replay.total_s);
}

static bool is_least_of(const struct least *least, const struct evaluation *w,
                        const struct rank_orders *orders)
{
    return least->of == w->pieces && least->pp == w->plan->pp && least->dp == w->plan->dp &&
           least->ep == w->plan->ep && least->num_orders == orders->count &&
           memcmp(least->orders, orders->at, (size_t)orders->count * sizeof *orders->at) == 0;
}

/* Pieces whose op lists (sequences of operations) have the shortest time over the given rank
 * orders; their other costs are the same in every order. */
static const struct pieces *least_pieces(struct evaluator *e, const struct evaluation *w,
                                         const struct rank_orders *orders)
{
    struct least *least = &e->least;
    struct plan placed = *w->plan;
    if (is_least_of(least, w, orders))
        return &least->pieces;
    assert(orders->count <= MAX_RANK_ORDERS);
    least->of = w->pieces;
    least->pp = placed.pp;
    least->dp = placed.dp;
    least->ep = placed.ep;
    least->num_orders = orders->count;
    memcpy(least->orders, orders->at, (size_t)orders->count * sizeof *orders->at);
    least->pieces = *w->pieces;
    const struct pieces *last = w->pieces;
    for (int i = 0; i < orders->count; i++) {
        memcpy(placed.order, orders->at[i], sizeof placed.order);
        const struct pieces *pieces =
            pieces_memo_find(&e->pieces, e->system, e->model, &placed, w->generator);
        if (pieces == last)
            continue;
        for (int piece = 0; piece < NUM_PIECES; piece++)
            lower_piece(&least->pieces.at[piece], &pieces->at[piece]);
        last = pieces;
    }
    return &least->pieces;
}

/* The bound takes 0 s for messages between stages. */
double evaluate_unplaced_floor_s(struct evaluator *e, const struct plan *plan,
                                 const struct rank_orders *orders)
{
    struct plan whole = *plan;
    whole.zero = 0;
    struct evaluation w = evaluation_begin(e, &whole);
    w.pieces = least_pieces(e, &w, orders);
    evaluation_add_links(&w);
    for (int stage = 0; stage < plan->pp; stage++)
        w.boundaries[stage].message_s = 0;
    w.last_more_s = 0;
    time_passes(&w);
    return time_ratio_of(e->system, e->model) * evaluation_floor_s(&w);
}

double evaluate_unplaced_work_floor_s(struct evaluator *e, const struct plan *plan,
                                      const struct rank_orders *orders)
{
    struct evaluation w = evaluation_begin(e, plan);
    w.pieces = least_pieces(e, &w, orders);
    return time_ratio_of(e->system, e->model) * evaluation_mean_floor_s(&w);
}

/* Modules for later tokens may be in the head's chunk or before it. This decides which stages hold
 * a table, but it makes no pass longer. */
double evaluate_block_floor_s(struct evaluator *e, const struct plan *plan,
                              const struct rank_orders *orders)
{
    struct evaluation w = evaluation_begin(e, plan);
    if (orders)
        w.pieces = least_pieces(e, &w, orders);
    return time_ratio_of(e->system, e->model) * evaluation_chunks_floor_s(&w);
}

double evaluate_compute_floor_s(struct evaluator *e, const struct plan *plan)
{
    struct evaluation w = evaluation_begin(e, plan);
    return time_ratio_of(e->system, e->model) * evaluation_compute_floor_s(&w);
}

struct step_cost evaluate_cost(struct evaluator *e, const struct plan *plan, struct arena *arena)
{
    struct evaluation w = evaluation_begin(e, plan);
    time_chunks(&w);
    return evaluation_cost(&w, arena);
}
