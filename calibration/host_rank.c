#include "calibration/host_rank.h"

#include "exec/kernels.h"
#include "sim/schedule/generators.h"
#include "sim/schedule/lowering.h"

#include <string.h>

static const double patience_s = 60;

static bool open_self(struct host_rank *host, struct err *err)
{
    struct place alone = place_alone();
    struct comm_options options = { .place = &alone, .device = &device_host, .patience_s = 1 };
    host->alone = options.local_world = local_world_new(1);
    host->self = comm_local.open(&options, err);
    return host->self != NULL;
}

static bool open_world(struct host_rank *host, struct err *err)
{
    enum { MOST_RANKS = 1024 };
    int ranks[MOST_RANKS];
    struct comm_options options = { .place = &host->place,
                                    .device = &device_host,
                                    .patience_s = patience_s };
    if (host->place.size > MOST_RANKS)
        return err_set(err, ERR_USAGE, "--ranks", "expected at most %d", MOST_RANKS);
    for (int i = 0; i < host->place.size; i++)
        ranks[i] = i;
    host->comm = comm_tcp.open(&options, err);
    if (host->comm)
        host->world = comm_tcp.group_new(host->comm, ranks, host->place.size, err);
    return host->world != NULL;
}

bool host_rank_open(const struct place *place, size_t arena_bytes, struct host_rank *out,
                    struct err *err)
{
    struct device_options options = { .local_rank = place->local_rank, .arena_bytes = arena_bytes };
    *out = (struct host_rank){ .place = *place };
    out->device = device_host.open(&options, err);
    if (out->device && open_world(out, err) && open_self(out, err))
        return true;
    host_rank_close(out);
    return false;
}

void host_rank_close(struct host_rank *host)
{
    if (host->world)
        comm_tcp.group_free(host->world);
    if (host->comm)
        comm_tcp.close(host->comm);
    if (host->self)
        comm_local.close(host->self);
    if (host->alone)
        local_world_free(host->alone);
    device_host.close(host->device);
    *host = (struct host_rank){ 0 };
}

bool host_rank_meet(struct host_rank *host, struct stream *stream, struct err *err)
{
    struct comm_call call = { .kind = COMM_BARRIER, .group = host->world, .stream = stream };
    comm_tcp.issue(&call);
    return device_host.stream_sync(stream, err) && comm_tcp.poll(host->comm, err);
}

bool host_rank_average(struct host_rank *host, double *numbers, size_t count, struct err *err)
{
    struct stream *stream = device_host.stream_new(host->device, "average", err);
    struct comm_call call = { .kind = COMM_ALL_REDUCE,
                              .group = host->world,
                              .stream = stream,
                              .in = numbers,
                              .out = numbers,
                              .count = count,
                              .element = ELEMENT_FP64,
                              .reduction = REDUCTION_SUM };
    if (!stream)
        return false;
    comm_tcp.issue(&call);
    bool ok = device_host.stream_sync(stream, err) && comm_tcp.poll(host->comm, err);
    device_host.stream_free(stream);
    for (size_t i = 0; i < count; i++)
        numbers[i] /= host->place.size;
    return ok;
}

/* --- runs ----------------------------------------------------------------------------------- */

struct layer_options host_layer_options(const struct stack *stack, const struct plan *plan)
{
    bool is_unfused = plan->attention == PLAN_ATTENTION_UNFUSED ||
                      (plan->attention == PLAN_ATTENTION_DEFAULT && !stack->flash_default);
    return (struct layer_options){ .flash_attention = !is_unfused,
                                   .fusions = stack->fusions,
                                   .dtype = precision_value_dtype((enum precision)plan->precision),
                                   .gradient_bytes = 4,
                                   .leaves_vocab_odd = stack->leaves_vocab_odd };
}

static bool read_plan(struct host_run *run, const struct host_run_options *options, int num_ranks,
                      struct err *err)
{
    struct plan *plan = &run->plan;
    if (!plan_parse(options->layout, &run->arena, plan, err))
        return false;
    plan->precision = (int)options->precision;
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
    run->setup = (struct run_setup){
        .plan = plan,
        .model = &run->model,
        .schedule = schedule,
        .options = host_layer_options(stack, plan),
        .overlaps_tensor = plan->overlaps_given ? plan->overlaps >> OVERLAP_TP & 1
                                                : stack->overlaps >> OVERLAP_TP & 1,
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
    struct rank_device on = { .api = &device_host,
                              .kernel_api = &kernels_host,
                              .comm_api = is_alone ? &comm_local : &comm_tcp,
                              .comm = is_alone ? host->self : host->comm,
                              .rank = is_alone ? 0 : host->place.rank };
    *out = (struct host_run){ .model = *model };
    if (read_plan(out, options, is_alone ? 1 : host->place.size, err) &&
        set_up(out, options->stack, err))
        on.device = out->device = device_host.open(&device, err);
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
    device_host.close(run->device);
    arena_release(&run->arena);
    *run = (struct host_run){ 0 };
}
