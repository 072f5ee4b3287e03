#include "sim/engine/simulate.h"

#include "sim/cost/network.h"
#include "sim/cost/straggler.h"
#include "sim/engine/work.h"
#include "sim/plan/layout.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What pieces_cost depends on. */
struct pieces_key {
    int tp, cp, microbatch, attention, precision, gradient_dtype, tensor_stride;
    int context_comm, context_stride;
    bool sp, overlap_tp, has_one_stage, splits;
};

struct known_pieces {
    struct pieces_key key;
    struct pieces pieces;
    struct known_pieces *older;
};

enum { NUM_BUCKETS = 256 };

struct evaluator {
    const struct system *system;
    const struct model *model;
    double model_flops; /* of a step */
    double slowdown;    /* of compute, by the slowest chip */
    struct arena arena;
    struct known_pieces *known[NUM_BUCKETS];
    struct pipeline_cache pipeline;
    /* Room for one plan's arrays. */
    int num_chunks;
    double *duration_s;
    double *end_s;
    struct stage_memory *stages;
    /* The last pipeline that was timed: plans that differ in sharding alone share it. */
    struct pipeline last;
    double *last_duration_s;
    double last_makespan_s;
};

struct evaluator *evaluator_new(const struct system *system, const struct model *model)
{
    struct evaluator *e = arena_grow(NULL, sizeof *e);
    *e = (struct evaluator){
        .system = system,
        .model = model,
        .model_flops = model_step_flops(model, model->batch, model->seq),
        .slowdown = straggler_slowdown(system->profile.chip_spread, system->num_gpus),
    };
    return e;
}

void evaluator_free(struct evaluator *e)
{
    if (!e)
        return;
    pipeline_cache_release(&e->pipeline);
    arena_release(&e->arena);
    free(e->duration_s);
    free(e->last_duration_s);
    free(e->end_s);
    free(e->stages);
    free(e);
}

static void make_room(struct evaluator *e, int num_chunks)
{
    if (num_chunks <= e->num_chunks)
        return;
    size_t n = (size_t)num_chunks;
    e->num_chunks = num_chunks;
    e->duration_s = arena_grow(e->duration_s, CHUNK_PASSES * n * sizeof *e->duration_s);
    e->last_duration_s =
        arena_grow(e->last_duration_s, CHUNK_PASSES * n * sizeof *e->last_duration_s);
    e->end_s = arena_grow(e->end_s, n * sizeof *e->end_s);
    e->stages = arena_grow(e->stages, n * sizeof *e->stages);
    e->last = (struct pipeline){ 0 };
}

static struct pieces_key pieces_key(const struct evaluator *e, const struct plan *plan,
                                    const struct generator *generator)
{
    struct pieces_key key;
    memset(&key, 0, sizeof key); /* padding is compared too */
    key.tp = plan->tp;
    key.microbatch = plan->microbatch;
    key.attention = plan->attention;
    key.precision = plan->precision;
    key.gradient_dtype = plan->gradient_dtype;
    key.tensor_stride = layout_stride(plan, AXIS_TENSOR);
    key.cp = plan->cp;
    key.context_comm = plan->context_comm;
    key.context_stride = layout_stride(plan, AXIS_CONTEXT);
    key.sp = plan->sp;
    key.overlap_tp = plan_overlaps(plan, &e->system->stack, OVERLAP_TP);
    key.has_one_stage = plan->pp == 1;
    key.splits = generator_splits(generator);
    return key;
}

static const struct pieces *find_pieces(struct evaluator *e, const struct plan *plan,
                                        const struct generator *generator)
{
    struct pieces_key key = pieces_key(e, plan, generator);
    int bucket = (key.tp * 31 + key.cp * 11 + key.microbatch * 7 + key.sp) & (NUM_BUCKETS - 1);
    for (struct known_pieces *k = e->known[bucket]; k; k = k->older)
        if (memcmp(&k->key, &key, sizeof key) == 0)
            return &k->pieces;
    struct known_pieces *found = ARENA_NEW(&e->arena, struct known_pieces);
    found->key = key;
    found->pieces = pieces_cost(e->system, e->model, plan, &e->arena);
    found->older = e->known[bucket];
    e->known[bucket] = found;
    return &found->pieces;
}

static bool same_pipeline(const struct evaluator *e, const struct pipeline *p)
{
    size_t durations = CHUNK_PASSES * (size_t)(p->shape.num_stages * p->shape.chunks_per_stage);
    return e->last.generator == p->generator &&
           memcmp(&e->last.shape, &p->shape, sizeof p->shape) == 0 &&
           memcmp(&e->last.lag_s, &p->lag_s, sizeof p->lag_s) == 0 &&
           memcmp(e->last_duration_s, p->duration_s, durations * sizeof(double)) == 0;
}

static double time_pipeline(struct evaluator *e, const struct work *w)
{
    struct pipeline pipeline = {
        .generator = w->generator,
        .shape = { w->plan->pp, w->plan->vpp, w->num_microbatches },
        .duration_s = e->duration_s,
        .lag_s = w->blocking ? 0 : w->p2p_s,
    };
    if (same_pipeline(e, &pipeline))
        return e->last_makespan_s;
    e->last_makespan_s = pipeline_s(&e->pipeline, &pipeline, e->end_s);
    e->last = pipeline;
    size_t durations = CHUNK_PASSES * (size_t)plan_chunks(w->plan);
    memcpy(e->last_duration_s, e->duration_s, durations * sizeof(double));
    return e->last_makespan_s;
}

/* The stage whose compute takes longest, and its parts of a whole step. */
static int busiest_stage(const struct work *w, double *busy_s)
{
    int busiest = 0;
    *busy_s = -1;
    for (int stage = 0; stage < w->plan->pp; stage++) {
        double stage_s = 0;
        for (int chunk = stage; chunk < plan_chunks(w->plan); chunk += w->plan->pp)
            for (int pass = 0; pass < CHUNK_PASSES; pass++)
                stage_s += w->duration_s[CHUNK_PASSES * chunk + pass];
        if (stage_s > *busy_s) {
            *busy_s = stage_s;
            busiest = stage;
        }
    }
    *busy_s *= w->num_microbatches;
    return busiest;
}

static void add_parts(struct time_parts *sum, const struct time_parts *parts, double times)
{
    for (int i = 0; i < num_time_parts; i++) {
        size_t at = time_part_table[i].offset;
        *(double *)(void *)((char *)sum + at) += times * time_part_s(parts, i);
    }
}

static void fill_time(const struct work *w, struct prediction *p)
{
    double busy_s;
    p->busiest_stage = busiest_stage(w, &busy_s);
    for (int chunk = p->busiest_stage; chunk < plan_chunks(w->plan); chunk += w->plan->pp) {
        struct chunk_time time = chunk_time(w, chunk);
        add_parts(&p->time, &time.parts, w->num_microbatches);
    }
    struct stage_tail tail = stage_tail(w, p->busiest_stage);
    p->time.data_comm_s += tail.data_comm_s;
    p->time.optimizer_s += tail.optimizer_s;
    p->time.other_s += tail.offload_s + w->system->stack.step_s;
    p->time.bubble_s = p->step_s - busy_s - tail.data_comm_s - tail.optimizer_s - tail.offload_s -
                       w->system->stack.step_s;
}

/* Whether a chunk, or a stage, is as the one before: even ones between the first and the last are.
 */
static bool is_as_before(const struct plan *plan, int i, int count)
{
    return plan_is_even(plan) && i > 1 && i < count - 1;
}

/* Every stage's last backward, then its reduction; the gradient norm joins all stages, so the
 * optimizer starts when the last is through. */
static double step_s(struct evaluator *e, const struct work *w)
{
    time_pipeline(e, w);
    double reduced_s = 0;
    double optimizer = 0;
    struct stage_tail tail = { 0 };
    for (int stage = 0; stage < w->plan->pp; stage++) {
        if (!is_as_before(w->plan, stage, w->plan->pp))
            tail = stage_tail(w, stage);
        reduced_s = fmax(reduced_s, e->end_s[stage] + tail.data_comm_s);
        optimizer = fmax(optimizer, tail.optimizer_s + tail.offload_s);
    }
    return reduced_s + optimizer + w->system->stack.step_s;
}

static double piece_flops(const struct piece_cost *piece)
{
    return piece->forward.flops + piece->backward.flops + piece->weight.flops;
}

/* FLOPs executed by all ranks in a step. */
static double executed_flops(const struct work *w)
{
    const struct pieces *pieces = w->pieces;
    double flops = piece_flops(&pieces->head);
    for (int chunk = 0; chunk < plan_chunks(w->plan); chunk++) {
        int layers = plan_chunk_layers(w->plan, w->model, chunk);
        int recomputed = plan_recomputed_layers(w->plan, chunk, layers);
        double replayed = recomputed * pieces->layer.forward.flops;
        if (w->plan->recompute == RECOMPUTE_SELECTIVE)
            replayed = layers * pieces->layer.core.flops;
        flops += layers * piece_flops(&pieces->layer) + replayed;
    }
    return flops * w->num_microbatches * w->plan->tp * w->plan->cp * w->plan->dp;
}

static struct memory_input memory_input(const struct work *w)
{
    return (struct memory_input){ w->system, w->model,     w->plan,
                                  w->pieces, w->generator, w->num_microbatches };
}

static void fill_memory(const struct evaluator *e, const struct work *w, struct prediction *p)
{
    struct memory_input input = memory_input(w);
    p->num_stages = w->plan->pp;
    p->stages = e->stages;
    plan_memory(&input, p->stages);
    for (int stage = 0; stage < w->plan->pp; stage++)
        if (p->stages[stage].total_bytes > p->peak_memory_bytes) {
            p->peak_memory_bytes = p->stages[stage].total_bytes;
            p->peak_stage = stage;
        }
    p->fits = p->peak_memory_bytes <= w->system->gpu.memory_bytes;
}

static void fill_rates(const struct evaluator *e, const struct work *w, struct prediction *p)
{
    const struct system *system = w->system;
    enum dtype dtype = precision_dtype((enum precision)w->plan->precision);
    double peak_flops = p->step_s * system->num_gpus * system->gpu.peak_flops_per_s[dtype];
    p->tokens_per_s = w->model->batch * w->model->seq / p->step_s;
    p->mfu = e->model_flops / peak_flops;
    p->hfu = executed_flops(w) / peak_flops;
    p->step_low_s = p->step_s * exp(-system_error_log(system));
    p->step_high_s = p->step_s * exp(system_error_log(system));
}

/* What memory depends on; the times follow when they are wanted. */
static struct work work_on(struct evaluator *e, const struct plan *plan)
{
    const struct generator *generator = generator_find(plan_schedule(plan));
    make_room(e, plan_chunks(plan));
    return (struct work){
        .system = e->system,
        .model = e->model,
        .plan = plan,
        .pieces = find_pieces(e, plan, generator),
        .generator = generator,
        .num_microbatches = plan_microbatches(plan, e->model->batch),
        .slowdown = e->slowdown,
        .duration_s = e->duration_s,
    };
}

static void time_chunks(struct work *w)
{
    const struct plan *plan = w->plan;
    w->blocking = plan->vpp == 1 || !plan_overlaps(plan, &w->system->stack, OVERLAP_P2P);
    w->data = network_data_groups(w->system, plan);
    w->p2p_s = stage_message_s(w);
    struct chunk_time time = { 0 };
    for (int chunk = 0; chunk < plan_chunks(plan); chunk++) {
        if (!is_as_before(plan, chunk, plan_chunks(plan)))
            time = chunk_time(w, chunk);
        w->duration_s[CHUNK_PASSES * chunk + CHUNK_FORWARD] = time.forward_s;
        w->duration_s[CHUNK_PASSES * chunk + CHUNK_BACKWARD] = time.backward_s;
        w->duration_s[CHUNK_PASSES * chunk + CHUNK_WEIGHT] = time.weight_s;
    }
}

struct prediction evaluate(struct evaluator *e, const struct plan *plan)
{
    struct work w = work_on(e, plan);
    struct prediction p = { .num_microbatches = w.num_microbatches };
    fill_memory(e, &w, &p);
    time_chunks(&w);
    p.step_s = step_s(e, &w);
    fill_time(&w, &p);
    fill_rates(e, &w, &p);
    return p;
}

double evaluate_peak_bytes(struct evaluator *e, const struct plan *plan)
{
    struct work w = work_on(e, plan);
    struct memory_input input = memory_input(&w);
    return plan_peak_bytes(&input);
}

double evaluate_step_s(struct evaluator *e, const struct plan *plan)
{
    struct work w = work_on(e, plan);
    time_chunks(&w);
    return step_s(e, &w);
}

double evaluate_bound_s(struct evaluator *e, const struct plan *plan)
{
    struct work w = work_on(e, plan);
    time_chunks(&w);
    return work_bound_s(&w);
}

struct step_cost evaluate_cost(struct evaluator *e, const struct plan *plan, struct arena *arena)
{
    struct work w = work_on(e, plan);
    time_chunks(&w);
    return work_cost(&w, arena);
}

bool system_check(const struct system *system, const struct plan *plan, struct err *err)
{
    enum dtype dtype = precision_dtype((enum precision)plan->precision);
    if (system->gpu.peak_flops_per_s[dtype] <= 0)
        return err_set(err, ERR_INFEASIBLE, "dtype", "%s has no %s matrix units; it has fp16",
                       system->gpu.name, dtype_names[dtype]);
    const struct fp8_recipe *fp8 = precision_fp8((enum precision)plan->precision);
    if (fp8 && fp8->needs_blackwell && system->gpu.arch < ARCH_BLACKWELL)
        return err_set(err, ERR_INFEASIBLE, "dtype", "%s has no matrix units for %s; it has fp8",
                       system->gpu.name, precision_names[plan->precision]);
    if (plan->cp > 1 && plan_attention_kernel(plan, system) == ATTENTION_UNFUSED)
        return err_set(err, ERR_INFEASIBLE, "cp",
                       "cp %d needs flash attention, which %s does not run on %s", plan->cp,
                       system->stack.name, system->gpu.name);
    const struct cluster *cluster = &system->cluster;
    int node_size = cluster_node_size(cluster);
    if (system->num_gpus > node_size && cluster->num_levels < 2)
        return err_set(err, ERR_INFEASIBLE, "gpus",
                       "%s is a single node of %d GPUs without a network; %d were asked for",
                       cluster->name, node_size, system->num_gpus);
    return true;
}

#define PART(member, text)                                 \
    {                                                      \
#member, text, offsetof(struct time_parts, member) \
    }
const struct time_part time_part_table[] = {
    PART(compute_s, "compute"),        PART(recompute_s, "recompute"),
    PART(tensor_comm_s, "TP exposed"), PART(context_comm_s, "CP exposed"),
    PART(expert_comm_s, "EP exposed"), PART(pipeline_comm_s, "PP p2p"),
    PART(bubble_s, "PP bubble"),       PART(data_comm_s, "DP exposed"),
    PART(optimizer_s, "optimizer"),    PART(other_s, "host, stragglers"),
};
const int num_time_parts = sizeof time_part_table / sizeof *time_part_table;

double time_part_s(const struct time_parts *parts, int i)
{
    return *(const double *)(const void *)((const char *)parts + time_part_table[i].offset);
}
