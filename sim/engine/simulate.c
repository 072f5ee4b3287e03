#include "sim/engine/simulate.h"

#include "sim/cost/network.h"
#include "sim/cost/straggler.h"
#include "sim/engine/data_parallel.h"
#include "sim/plan/layout.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What pieces_cost depends on. */
struct pieces_key {
    int tp, microbatch, attention, precision, gradient_dtype, tensor_stride;
    bool sp, overlap_tp;
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
    e->duration_s = arena_grow(e->duration_s, 2 * n * sizeof *e->duration_s);
    e->last_duration_s = arena_grow(e->last_duration_s, 2 * n * sizeof *e->last_duration_s);
    e->end_s = arena_grow(e->end_s, n * sizeof *e->end_s);
    e->stages = arena_grow(e->stages, n * sizeof *e->stages);
    e->last = (struct pipeline){ 0 };
}

static struct pieces_key pieces_key(const struct evaluator *e, const struct plan *plan)
{
    struct pieces_key key;
    memset(&key, 0, sizeof key); /* padding is compared too */
    key.tp = plan->tp;
    key.microbatch = plan->microbatch;
    key.attention = plan->attention;
    key.precision = plan->precision;
    key.gradient_dtype = plan->gradient_dtype;
    key.tensor_stride = layout_stride(plan, AXIS_TENSOR);
    key.sp = plan->sp;
    key.overlap_tp = plan_overlaps(plan, &e->system->stack, OVERLAP_TP);
    return key;
}

static const struct pieces *find_pieces(struct evaluator *e, const struct plan *plan)
{
    struct pieces_key key = pieces_key(e, plan);
    int bucket = (key.tp * 31 + key.microbatch * 7 + key.sp) & (NUM_BUCKETS - 1);
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

/* One plan under evaluation. */
struct work {
    struct evaluator *e;
    const struct system *system;
    const struct model *model;
    const struct plan *plan;
    const struct pieces *pieces;
    const struct generator *generator;
    int m;           /* microbatches */
    double p2p_s;    /* one message over a stage boundary */
    bool blocking;   /* compute waits for p2p */
    struct comm_group data;
    struct time_parts *parts; /* per microbatch of one chunk: scratch */
};

/* A whole activation, or a tensor rank's share of it, gathered in the node on arrival. */
static double stage_message_s(const struct work *w)
{
    const struct plan *plan = w->plan;
    if (plan->pp == 1)
        return 0;
    double element_bytes = plan->precision == PRECISION_FP32 ? 4 : 2;
    double bytes = element_bytes * plan->microbatch * w->model->seq * w->model->hidden;
    struct comm_group pair = network_stage_pair(w->system, plan);
    if (plan->sp)
        return point_to_point_s(&pair, bytes / plan->tp);
    if (!w->system->stack.scatter_gather_p2p || plan->tp == 1)
        return point_to_point_s(&pair, bytes);
    struct comm_group tensor = network_axis_group(w->system, plan, AXIS_TENSOR);
    return point_to_point_s(&pair, bytes / plan->tp) +
           collective_s(&tensor, COLLECTIVE_ALL_GATHER, bytes);
}

/* Parameters of a layer are gathered while the layer before runs, gradients reduced while the next
 * runs: a rate, not a sum. The first gather and the last reduction have nothing to hide behind. */
static double sharded_s(const struct work *w, double compute_s, double comm_s, double count,
                        double ends_s)
{
    bool overlap = plan_overlaps(w->plan, &w->system->stack, OVERLAP_PARAM);
    if (!overlap)
        return count * (compute_s + comm_s);
    return count * overlapped_s(&w->system->profile, compute_s, comm_s) + ends_s;
}

/* The share of one chunk and microbatch in each part, forward and backward together; the same sums
 * that the durations are made of. */
struct chunk_time {
    double forward_s, backward_s;
    struct time_parts parts;
};

static void add_list(struct chunk_time *time, double *duration_s, const struct list_cost *list,
                     double times)
{
    *duration_s += times * list->total_s;
    time->parts.compute_s += times * list->compute_s;
    time->parts.tensor_comm_s += times * list->comm_s;
    time->parts.other_s += times * list->host_s;
}

static void add_recompute(const struct work *w, struct chunk_time *time, int chunk, int layers)
{
    const struct piece_cost *layer = &w->pieces->layer;
    int recomputed = plan_recomputed_layers(w->plan, chunk, layers);
    double replay_s = recomputed * layer->forward.total_s;
    if (w->plan->recompute == RECOMPUTE_SELECTIVE)
        replay_s = layers * layer->core.total_s;
    time->backward_s += replay_s;
    time->parts.recompute_s += replay_s;
}

/* ZeRO-3 gathers each layer for its forward and again for its backward; ZeRO-2 and 3 reduce after
 * every microbatch's backward. */
static void add_sharding(const struct work *w, struct chunk_time *time, int layers)
{
    const struct plan *plan = w->plan;
    if (plan->zero < 2 || plan->dp == 1)
        return;
    const struct piece_cost *layer = &w->pieces->layer;
    struct data_comm comm = data_comm(plan, &w->data, layer->parameters);
    double gather_s = plan->zero == 3 ? comm.gather_s : 0;
    double forward_s = time->forward_s / layers;
    double backward_s = time->backward_s / layers;
    double forward_all_s =
        plan->zero == 3 ? sharded_s(w, forward_s, gather_s, layers, gather_s) : time->forward_s;
    double backward_all_s = sharded_s(w, backward_s, gather_s + comm.reduce_s, layers,
                                      gather_s + comm.reduce_s);
    time->parts.data_comm_s +=
        forward_all_s - time->forward_s + backward_all_s - time->backward_s;
    time->forward_s = forward_all_s;
    time->backward_s = backward_all_s;
}

/* The slowest chip sets the pace; blocking messages keep both stages from computing. */
static void add_waiting(const struct work *w, struct chunk_time *time, int chunk)
{
    double slower = w->e->slowdown - 1;
    time->parts.other_s += slower * (time->forward_s + time->backward_s);
    time->forward_s *= 1 + slower;
    time->backward_s *= 1 + slower;
    double host_s = w->system->stack.microbatch_s;
    time->forward_s += host_s / 2;
    time->backward_s += host_s / 2;
    time->parts.other_s += host_s;
    if (!w->blocking)
        return;
    double down_s = chunk < plan_chunks(w->plan) - 1 ? w->p2p_s : 0;
    double up_s = chunk > 0 ? w->p2p_s : 0;
    time->forward_s += down_s;
    time->backward_s += up_s;
    time->parts.pipeline_comm_s += down_s + up_s;
}

static struct chunk_time chunk_time(const struct work *w, int chunk)
{
    struct chunk_time time = { 0 };
    int layers = plan_chunk_layers(w->plan, w->model, chunk);
    add_list(&time, &time.forward_s, &w->pieces->layer.forward, layers);
    add_list(&time, &time.backward_s, &w->pieces->layer.backward, layers);
    add_recompute(w, &time, chunk, layers);
    if (layers > 0)
        add_sharding(w, &time, layers);
    if (chunk == 0) {
        add_list(&time, &time.forward_s, &w->pieces->embedding.forward, 1);
        add_list(&time, &time.backward_s, &w->pieces->embedding.backward, 1);
    }
    if (chunk == plan_chunks(w->plan) - 1) {
        add_list(&time, &time.forward_s, &w->pieces->head.forward, 1);
        add_list(&time, &time.backward_s, &w->pieces->head.backward, 1);
    }
    add_waiting(w, &time, chunk);
    return time;
}

static bool same_pipeline(const struct evaluator *e, const struct pipeline *p)
{
    size_t durations = 2 * (size_t)(p->shape.num_stages * p->shape.chunks_per_stage);
    return e->last.generator == p->generator &&
           memcmp(&e->last.shape, &p->shape, sizeof p->shape) == 0 &&
           memcmp(&e->last.lag_s, &p->lag_s, sizeof p->lag_s) == 0 &&
           memcmp(e->last_duration_s, p->duration_s, durations * sizeof(double)) == 0;
}

static double time_pipeline(struct work *w)
{
    struct evaluator *e = w->e;
    struct pipeline pipeline = {
        .generator = w->generator,
        .shape = { w->plan->pp, w->plan->vpp, w->m },
        .duration_s = e->duration_s,
        .lag_s = w->blocking ? 0 : w->p2p_s,
    };
    if (same_pipeline(e, &pipeline))
        return e->last_makespan_s;
    e->last_makespan_s = pipeline_s(&e->pipeline, &pipeline, e->end_s);
    e->last = pipeline;
    size_t durations = 2 * (size_t)plan_chunks(w->plan);
    memcpy(e->last_duration_s, e->duration_s, durations * sizeof(double));
    return e->last_makespan_s;
}

/* Exposed after the last backward of a stage and before its first forward. */
struct stage_tail {
    double data_comm_s;
    double optimizer_s;
};

/* A bucket is a chunk when there are pipeline stages (Megatron-Core), else a fixed size. */
static double num_buckets(const struct work *w, double bytes)
{
    double bucket_bytes = w->system->stack.bucket_bytes;
    if (w->plan->pp > 1)
        return w->plan->vpp;
    return bucket_bytes > 0 && bytes > bucket_bytes ? ceil(bytes / bucket_bytes) : 1;
}

/* The compute of a stage's last backwards, or of its first forwards: what reductions, or gathers,
 * may run beside. Chunks of an interleaved schedule come pp microbatches apart. */
static double window_s(const struct work *w, int stage, bool backward)
{
    const struct plan *plan = w->plan;
    double chunk_s = w->e->duration_s[2 * stage + (backward ? 1 : 0)];
    return plan->vpp == 1 ? chunk_s : (double)plan->vpp * plan->pp * chunk_s;
}

static double exposed_or_whole_s(const struct work *w, enum overlap overlap, double comm_s,
                                 double bytes, int stage)
{
    if (comm_s <= 0 || !plan_overlaps(w->plan, &w->system->stack, overlap))
        return comm_s;
    return exposed_s(&w->system->profile, comm_s, window_s(w, stage, overlap == OVERLAP_GRAD),
                     num_buckets(w, bytes));
}

/* Tied embeddings: first and last stage add up their gradients of the table. */
static double tied_reduce_s(const struct work *w, int stage)
{
    const struct plan *plan = w->plan;
    bool holds_table = stage == 0 || stage == plan->pp - 1;
    if (!w->model->tied || !w->system->stack.tied_reduce || plan->pp == 1 || !holds_table)
        return 0;
    struct comm_group pair = network_stage_pair(w->system, plan);
    double table = w->pieces->logits / plan->microbatch / w->model->seq * w->model->hidden;
    return collective_s(&pair, COLLECTIVE_ALL_REDUCE,
                        table * dtype_bytes((enum dtype)plan->gradient_dtype));
}

static struct stage_tail stage_tail(const struct work *w, int stage)
{
    const struct plan *plan = w->plan;
    double parameters = stage_parameters(w->model, plan, w->pieces, stage);
    struct stage_tail tail = {
        .data_comm_s = tied_reduce_s(w, stage),
        .optimizer_s = optimizer_s(w->system, w->model, plan, parameters),
    };
    if (plan->dp * plan->cp == 1 || plan->zero >= 3)
        return tail;
    struct data_comm comm = data_comm(plan, &w->data, parameters);
    double gradient_bytes = parameters * dtype_bytes((enum dtype)plan->reduce_dtype);
    double weight_bytes = parameters * precision_bytes((enum precision)plan->precision);
    if (plan->zero < 2)
        tail.data_comm_s +=
            exposed_or_whole_s(w, OVERLAP_GRAD, comm.reduce_s, gradient_bytes, stage);
    tail.data_comm_s += exposed_or_whole_s(w, OVERLAP_PARAM, comm.gather_s, weight_bytes, stage);
    return tail;
}

/* The stage whose compute takes longest, and its parts of a whole step. */
static int busiest_stage(const struct work *w, double *busy_s)
{
    int busiest = 0;
    *busy_s = -1;
    for (int stage = 0; stage < w->plan->pp; stage++) {
        double stage_s = 0;
        for (int chunk = stage; chunk < plan_chunks(w->plan); chunk += w->plan->pp)
            stage_s += w->e->duration_s[2 * chunk] + w->e->duration_s[2 * chunk + 1];
        if (stage_s > *busy_s) {
            *busy_s = stage_s;
            busiest = stage;
        }
    }
    *busy_s *= w->m;
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
        add_parts(&p->time, &time.parts, w->m);
    }
    struct stage_tail tail = stage_tail(w, p->busiest_stage);
    p->time.data_comm_s += tail.data_comm_s;
    p->time.optimizer_s += tail.optimizer_s;
    p->time.other_s += w->system->stack.step_s;
    p->time.bubble_s = p->step_s - busy_s - tail.data_comm_s - tail.optimizer_s -
                       w->system->stack.step_s;
}

/* Every stage's last backward, then its reduction; the gradient norm joins all stages, so the
 * optimizer starts when the last is through. */
static double step_s(struct work *w)
{
    time_pipeline(w);
    double reduced_s = 0;
    double optimizer = 0;
    for (int stage = 0; stage < w->plan->pp; stage++) {
        struct stage_tail tail = stage_tail(w, stage);
        reduced_s = fmax(reduced_s, w->e->end_s[stage] + tail.data_comm_s);
        optimizer = fmax(optimizer, tail.optimizer_s);
    }
    return reduced_s + optimizer + w->system->stack.step_s;
}

/* FLOPs executed by all ranks in a step. */
static double executed_flops(const struct work *w)
{
    const struct pieces *pieces = w->pieces;
    double flops = pieces->head.forward.flops + pieces->head.backward.flops;
    for (int chunk = 0; chunk < plan_chunks(w->plan); chunk++) {
        int layers = plan_chunk_layers(w->plan, w->model, chunk);
        int recomputed = plan_recomputed_layers(w->plan, chunk, layers);
        double replayed = recomputed * pieces->layer.forward.flops;
        if (w->plan->recompute == RECOMPUTE_SELECTIVE)
            replayed = layers * pieces->layer.core.flops;
        flops += layers * (pieces->layer.forward.flops + pieces->layer.backward.flops) + replayed;
    }
    return flops * w->m * w->plan->tp * w->plan->dp;
}

static void fill_memory(const struct work *w, struct prediction *p)
{
    struct memory_input input = { w->system, w->model, w->plan, w->pieces, w->generator, w->m };
    p->num_stages = w->plan->pp;
    p->stages = w->e->stages;
    for (int stage = 0; stage < w->plan->pp; stage++) {
        p->stages[stage] = stage_memory(&input, stage);
        if (p->stages[stage].total_bytes > p->peak_memory_bytes) {
            p->peak_memory_bytes = p->stages[stage].total_bytes;
            p->peak_stage = stage;
        }
    }
    p->fits = p->peak_memory_bytes <= w->system->gpu.memory_bytes;
}

static void fill_rates(const struct work *w, struct prediction *p)
{
    const struct system *system = w->system;
    enum dtype dtype = precision_dtype((enum precision)w->plan->precision);
    double peak_flops = p->step_s * system->num_gpus * system->gpu.peak_flops_per_s[dtype];
    p->tokens_per_s = w->model->batch * w->model->seq / p->step_s;
    p->mfu = w->e->model_flops / peak_flops;
    p->hfu = executed_flops(w) / peak_flops;
    p->step_low_s = p->step_s * exp(-system->profile.error_log);
    p->step_high_s = p->step_s * exp(system->profile.error_log);
}

static struct work work_on(struct evaluator *e, const struct plan *plan)
{
    make_room(e, plan_chunks(plan));
    struct work w = {
        .e = e,
        .system = e->system,
        .model = e->model,
        .plan = plan,
        .pieces = find_pieces(e, plan),
        .generator = generator_find(plan_schedule(plan)),
        .m = plan_microbatches(plan, e->model->batch),
        .blocking = plan->vpp == 1 || !plan_overlaps(plan, &e->system->stack, OVERLAP_P2P),
        .data = network_axis_group(e->system, plan, AXIS_DATA),
    };
    w.p2p_s = stage_message_s(&w);
    for (int chunk = 0; chunk < plan_chunks(plan); chunk++) {
        struct chunk_time time = chunk_time(&w, chunk);
        e->duration_s[2 * chunk] = time.forward_s;
        e->duration_s[2 * chunk + 1] = time.backward_s;
    }
    return w;
}

struct prediction evaluate(struct evaluator *e, const struct plan *plan)
{
    struct work w = work_on(e, plan);
    struct prediction p = { .num_microbatches = w.m };
    fill_memory(&w, &p);
    p.step_s = step_s(&w);
    fill_time(&w, &p);
    fill_rates(&w, &p);
    return p;
}

bool system_check(const struct system *system, const struct plan *plan, struct err *err)
{
    enum dtype dtype = precision_dtype((enum precision)plan->precision);
    if (system->gpu.peak_flops_per_s[dtype] <= 0)
        return err_set(err, ERR_INFEASIBLE, "dtype", "%s has no %s matrix units; it has fp16",
                       system->gpu.name, dtype_names[dtype]);
    const struct cluster *cluster = &system->cluster;
    int node_size = cluster_node_size(cluster);
    if (system->num_gpus > node_size && cluster->num_levels < 2)
        return err_set(err, ERR_INFEASIBLE, "gpus",
                       "%s is a single node of %d GPUs without a network; %d were asked for",
                       cluster->name, node_size, system->num_gpus);
    return true;
}

#define PART(member, text) { #member, text, offsetof(struct time_parts, member) }
const struct time_part time_part_table[] = {
    PART(compute_s, "compute"),
    PART(recompute_s, "recompute"),
    PART(tensor_comm_s, "TP exposed"),
    PART(context_comm_s, "CP exposed"),
    PART(expert_comm_s, "EP exposed"),
    PART(pipeline_comm_s, "PP p2p"),
    PART(bubble_s, "PP bubble"),
    PART(data_comm_s, "DP exposed"),
    PART(optimizer_s, "optimizer"),
    PART(other_s, "host, stragglers"),
};
const int num_time_parts = sizeof time_part_table / sizeof *time_part_table;

double time_part_s(const struct time_parts *parts, int i)
{
    return *(const double *)(const void *)((const char *)parts + time_part_table[i].offset);
}
