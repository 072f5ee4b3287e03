/* One of the processes that measure this machine: its device, its communicator and its training
 * steps. */
#include "calibration/measure/host_rank.h"

#include "exec/plugin/backend.h"
#include "sim/plan/lowering.h"
#include "sim/schedule/generators.h"

#include <string.h>

static const double patience_s = 60;

static const struct host_load load_of_core = { 64 << 20, 256, 1 << 18, GRID_CORE };
static const struct host_load load_of_gpu = { 1 << 30, 4096, 1 << 24, GRID_GPU };

size_t host_arena_bytes(const char *backend)
{
    bool is_host = strcmp(backend, device_host.name) == 0;
    return is_host ? (size_t)320 << 20 : (size_t)5 << 30;
}

static bool open_self(struct host_rank *host, struct err *err)
{
    struct place alone = place_alone();
    struct comm_options options = { .place = &alone, .device = host->api, .patience_s = 1 };
    host->self = host->comm_api->open(&options, err);
    return host->self != NULL;
}

static bool open_world(struct host_rank *host, struct err *err)
{
    enum { MOST_RANKS = 1024 };
    int ranks[MOST_RANKS];
    struct comm_options options = { .place = &host->place,
                                    .device = host->api,
                                    .patience_s = patience_s };
    if (host->place.size > MOST_RANKS)
        return err_set(err, ERR_USAGE, "--ranks", "expected at most %d", MOST_RANKS);
    for (int i = 0; i < host->place.size; i++)
        ranks[i] = i;
    host->comm = host->comm_api->open(&options, err);
    if (host->comm)
        host->world = host->comm_api->group_new(host->comm, ranks, host->place.size, err);
    return host->world != NULL;
}

static bool find_backend(const char *name, struct host_rank *host, struct err *err)
{
    const struct backend *backend = backend_find(name, err);
    if (!backend || !backend->device->is_there(host->place.local_rank, err))
        return false;
    bool uses_cores = backend->device->uses_cores;
    host->api = backend->device;
    host->kernel_api = backend->kernels;
    host->load = uses_cores ? &load_of_core : &load_of_gpu;
    host->precision = uses_cores ? PRECISION_FP32 : PRECISION_BF16;
    host->comm_api = comm_find(comm_usual(host->api, &host->place), err);
    return host->comm_api != NULL;
}

bool host_rank_open(const struct place *place, const char *backend, size_t arena_bytes,
                    struct host_rank *out, struct err *err)
{
    struct device_options options = { .local_rank = place->local_rank, .arena_bytes = arena_bytes };
    *out = (struct host_rank){ .place = *place };
    if (!find_backend(backend, out, err))
        return false;
    out->device = out->api->open(&options, err);
    if (out->device && open_world(out, err) && open_self(out, err))
        return true;
    host_rank_close(out);
    return false;
}

void host_rank_close(struct host_rank *host)
{
    if (host->world)
        host->comm_api->group_free(host->world);
    if (host->comm)
        host->comm_api->close(host->comm);
    if (host->self)
        host->comm_api->close(host->self);
    if (host->api)
        host->api->close(host->device);
    *host = (struct host_rank){ 0 };
}

int host_rank_least(const struct host_rank *host, int usual)
{
    return host->is_busy ? (usual + 1) / 2 : usual;
}

bool host_rank_meet(struct host_rank *host, struct stream *stream, struct err *err)
{
    struct comm_call call = { .kind = COMM_BARRIER, .group = host->world, .stream = stream };
    host->comm_api->issue(&call);
    return host->api->stream_sync(stream, err) && host->comm_api->poll(host->comm, err);
}

/* Reduces numbers through device memory. */
static bool reduce(struct host_rank *host, struct group *group, enum reduction reduction,
                   double *numbers, size_t count, struct err *err)
{
    struct stream *stream = host->api->stream_new(host->device, "reduce", err);
    double *at = stream ? host->api->alloc(host->device, stream, count * sizeof *at, err) : NULL;
    struct comm_call call = { .kind = COMM_ALL_REDUCE,
                              .group = group,
                              .stream = stream,
                              .in = at,
                              .out = at,
                              .count = count,
                              .element = ELEMENT_FP64,
                              .reduction = reduction };
    bool ok = at != NULL;
    if (ok) {
        host->api->copy(stream, at, numbers, count * sizeof *at);
        host->comm_api->issue(&call);
        host->api->copy(stream, numbers, at, count * sizeof *at);
        ok = host->api->stream_sync(stream, err) && host->comm_api->poll(host->comm, err);
    }
    host->api->free(host->device, stream, at);
    host->api->stream_free(stream);
    return ok;
}

bool host_rank_average(struct host_rank *host, double *numbers, size_t count, struct err *err)
{
    bool ok = reduce(host, host->world, REDUCTION_SUM, numbers, count, err);
    for (size_t i = 0; i < count; i++)
        numbers[i] /= host->place.size;
    return ok;
}

bool host_rank_most(struct host_rank *host, struct group *group, double *numbers, size_t count,
                    struct err *err)
{
    return reduce(host, group, REDUCTION_MAX, numbers, count, err);
}

/* --- runs ---------------------------------------------------------------------------------- */

struct layer_options host_layer_options(const struct stack *stack, const struct plan *plan)
{
    bool is_unfused = plan->attention == PLAN_ATTENTION_UNFUSED ||
                      (plan->attention == PLAN_ATTENTION_DEFAULT && !stack->unstated.flash_default);
    return (struct layer_options){ .flash_attention = !is_unfused,
                                   .fusions = stack->fusions,
                                   .dtype = precision_value_dtype(plan->precision),
                                   .gradient_bytes = 4,
                                   .leaves_vocab_odd = stack->leaves_vocab_odd };
}

static bool read_plan(struct host_run *run, const char *layout, enum precision precision,
                      int num_ranks, struct err *err)
{
    struct plan *plan = &run->plan;
    if (!plan_parse(layout, &run->arena, plan, err))
        return false;
    plan->precision = (int)precision;
    if (plan->dp <= 0)
        plan->dp = num_ranks / (plan->tp * plan->pp * plan->cp);
    if (plan->dp < 1)
        return err_set(err, ERR_INFEASIBLE, "", "needs more than %d ranks", num_ranks);
    return !plan_check(plan, &run->model, run->model.batch, num_ranks, err);
}

static bool set_up(struct host_run *run, const struct stack *stack, struct err *err)
{
    const struct plan *plan = &run->plan;
    struct lowering lowering = plan_lowering(plan, &run->model);
    struct schedule_shape shape = plan_shape(plan, run->model.batch);
    const struct schedule *schedule =
        schedule_new(generator_find(plan_schedule(plan)), &shape, &lowering, &run->arena, err);
    run->tokens =
        (struct token_source){ .vocab = run->model.vocab, .seq = run->model.seq, .seed = 1 };
    unsigned overlaps = plan->overlaps_given ? plan->overlaps : stack->overlaps;
    run->setup = (struct run_setup){
        .plan = plan,
        .model = &run->model,
        .schedule = schedule,
        .options = host_layer_options(stack, plan),
        .overlaps_tensor = overlaps >> OVERLAP_TP & 1,
        .overlaps_gradients = overlaps >> OVERLAP_GRAD & 1,
        .tokens = &run->tokens,
        .update = { .optimizer = OPTIMIZER_ADAM,
                    .rate = 1e-4F,
                    .beta1 = 0.9F,
                    .beta2 = 0.95F,
                    .epsilon = 1e-8F,
                    .clip = 1,
                    .loss_scale = 1 },
        .seed = 1,
    };
    return schedule != NULL;
}

bool host_run_open(struct host_rank *host, const struct model *model,
                   const struct host_run_options *options, struct host_run *out, struct err *err)
{
    bool is_alone = options->is_alone;
    struct device_options device = { .local_rank = host->place.local_rank,
                                     .arena_bytes = options->arena_bytes };
    struct rank_device on = { .api = host->api,
                              .kernel_api = host->kernel_api,
                              .comm_api = host->comm_api,
                              .comm = is_alone ? host->self : host->comm,
                              .rank = is_alone ? 0 : host->place.rank };
    *out = (struct host_run){ .model = *model, .api = host->api };
    if (read_plan(out, options->layout, host->precision, is_alone ? 1 : host->place.size, err) &&
        set_up(out, options->stack, err))
        on.device = out->device = host->api->open(&device, err);
    if (on.device)
        out->rank = rank_new(&out->setup, &on, err);
    if (out->rank)
        return true;
    err_prefix(err, ": ");
    err_prefix(err, options->layout);
    host_run_close(out);
    return false;
}

void host_run_close(struct host_run *run)
{
    rank_free(run->rank);
    run->api->close(run->device);
    arena_release(&run->arena);
    *run = (struct host_run){ 0 };
}
