#include "tests/exec/exchange/exchange_side.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static bool told(bool ok, int rank, const struct err *err)
{
    if (!ok)
        printf("rank %d: %s: %s\n", rank, err->where, err->msg);
    return ok;
}

/* --- opening and closing ------------------------------------------------------------------ */

/* The size of the device memory that the exchanger and the side's three arrays need. */
static size_t arena_bytes(const struct exchange_side *side, const struct exchanger_setup *setup)
{
    struct exchange_load load = { setup->tensors, setup->num_tensors, sizeof(float) };
    double bytes = exchanger_memory_bytes(&side->exchange, &load, &setup->ranks) +
                   3 * (double)sizeof(float) * exchange_elements(&load);
    return (size_t)bytes + (64 << 10);
}

static bool open_machine(struct exchange_side *side, const struct exchanger_setup *setup,
                         struct err *err)
{
    const struct device_options device = { .arena_bytes = arena_bytes(side, setup) };
    return (side->device = device_host.open(&device, err)) &&
           (side->stream = device_host.stream_new(side->device, "exchange", err)) &&
           (side->kernels = kernels_host.open(side->device, DTYPE_FP32, err));
}

static bool open_groups(struct exchange_side *side, struct exchange_ranks numbers, struct err *err)
{
    int *ranks = arena_grow(NULL, sizeof *ranks * (size_t)side->on.size);
    for (int i = 0; i < side->on.size; i++)
        ranks[i] = i;
    side->world = side->on.api->group_new(side->on.comm, ranks, side->on.size, err);
    bool ok =
        side->world && exchange_groups_new(side->on.api, side->on.comm, &side->exchange, &numbers,
                                           ranks, side->on.rank, &side->groups, err);
    free(ranks);
    return ok;
}

static float *zeroed(struct exchange_side *side, struct err *err)
{
    size_t bytes = sizeof(float) * side->elements;
    float *at = device_host.alloc(side->device, side->stream, bytes, err);
    if (at)
        device_host.fill(side->stream, at, 0, bytes);
    return at;
}

static bool open_exchanger(struct exchange_side *side, struct exchanger_setup setup,
                           struct err *err)
{
    setup.exchange = &side->exchange;
    setup.groups = &side->groups;
    setup.device_api = &device_host;
    setup.device = side->device;
    setup.kernel_api = &kernels_host;
    setup.kernels = side->kernels;
    setup.stream = side->stream;
    setup.draw = (struct draw){ .seed = 11 };
    if (!exchanger_can_run(&side->exchange, &kernels_host, err) ||
        !(side->exchanger = exchanger_new(&setup, err)))
        return false;
    side->elements = exchanger_elements(side->exchanger);
    return (side->gradients = zeroed(side, err)) && (side->weights = zeroed(side, err)) &&
           (side->averaged = zeroed(side, err)) && device_host.stream_sync(side->stream, err);
}

bool exchange_world_open(struct exchange_world *world, const struct comm_api *api,
                         const struct comm_options *options)
{
    struct err err = { 0 };
    *world = (struct exchange_world){ .api = api,
                                      .rank = options->place->rank,
                                      .size = options->place->size };
    world->comm = api->open(options, &err);
    return told(world->comm != NULL, world->rank, &err);
}

bool exchange_side_open(struct exchange_side *side, const struct exchange_world *world,
                        const char *word, const struct exchange_tensor *tensors, int num_tensors,
                        int per_node)
{
    struct err err = { 0 };
    *side = (struct exchange_side){ .on = *world };
    struct exchanger_setup setup = { .ranks = { world->size, per_node },
                                     .tensors = tensors,
                                     .num_tensors = num_tensors };
    bool ok = exchange_read(word, &side->exchange, &err) && open_machine(side, &setup, &err) &&
              open_groups(side, setup.ranks, &err) && open_exchanger(side, setup, &err);
    return told(ok, world->rank, &err);
}

void exchange_side_close(struct exchange_side *side)
{
    exchanger_free(side->exchanger);
    exchange_groups_free(&side->groups);
    device_host.stream_free(side->stream);
    side->on.api->group_free(side->world);
    if (side->kernels)
        kernels_host.close(side->kernels);
    device_host.close(side->device);
}

/* --- a step ------------------------------------------------------------------------------- */

bool exchange_side_sync(struct exchange_side *side)
{
    struct err err = { 0 };
    return told(device_host.stream_sync(side->stream, &err) &&
                    side->on.api->poll(side->on.comm, &err),
                side->on.rank, &err);
}

double exchange_side_total(struct exchange_side *side, double value)
{
    side->on.api->issue(&(struct comm_call){ .kind = COMM_ALL_REDUCE,
                                             .group = side->world,
                                             .stream = side->stream,
                                             .in = &value,
                                             .out = &value,
                                             .count = 1,
                                             .element = ELEMENT_FP64 });
    return exchange_side_sync(side) ? value : (double)NAN;
}

static void update(struct exchange_side *side, double rate)
{
    double step = rate / exchanger_num_summed(side->exchanger);
    for (size_t i = 0; i < side->elements; i++)
        side->weights[i] -= (float)(step * (double)side->gradients[i]);
}

static bool average(struct exchange_side *side)
{
    if (!exchanger_averages(side->exchanger))
        return true;
    exchanger_average(side->exchanger, side->weights, side->averaged);
    device_host.copy(side->stream, side->weights, side->averaged, sizeof(float) * side->elements);
    return exchange_side_sync(side);
}

bool exchange_side_descend(struct exchange_side *side, int step, double rate, double loss)
{
    bool is_beside = exchange_start(&side->exchange) == START_STEP;
    exchanger_begin_step(side->exchanger, step);
    if (exchanger_begins_early(side->exchanger))
        exchanger_begin(side->exchanger);
    if (exchanger_num_summed(side->exchanger) > 1)
        exchanger_sum(side->exchanger, side->gradients);
    bool ok = exchange_side_sync(side) && (!is_beside || average(side));
    update(side, rate);
    ok = ok && (is_beside || average(side));
    exchanger_end_step(side->exchanger, loss);
    return ok;
}

/* --- a convex problem --------------------------------------------------------------------- */

/* The mean of all ranks' weights. */
static bool mean_weights(struct exchange_side *side, int features, float *mean)
{
    for (int i = 0; i < features; i++)
        mean[i] = side->weights[i] / (float)side->on.size;
    side->on.api->issue(&(struct comm_call){ .kind = COMM_ALL_REDUCE,
                                             .group = side->world,
                                             .stream = side->stream,
                                             .in = mean,
                                             .out = mean,
                                             .count = (size_t)features,
                                             .element = ELEMENT_FP32 });
    return exchange_side_sync(side);
}

static double distance_squares(const struct exchange_side *side, int features, const float *mean)
{
    double sum = 0;
    for (int i = 0; i < features; i++) {
        double apart = (double)side->weights[i] - (double)mean[i];
        sum += apart * apart;
    }
    return sum;
}

static bool measure(struct exchange_side *side, struct convex_run *run)
{
    float mean[128];
    if (!mean_weights(side, run->problem->features, mean))
        return false;
    double squares = distance_squares(side, run->problem->features, mean);
    run->loss = logistic_loss_of_floats(run->problem, mean);
    run->apart = sqrt(exchange_side_total(side, squares) / side->on.size);
    run->sent_bytes = round(exchange_side_total(side, exchange_groups_sent_bytes(&side->groups)));
    run->planned_bytes = exchanger_planned_bytes(side->exchanger);
    return true;
}

static void find_gradient(struct exchange_side *side, const struct convex_run *run,
                          struct random *rng)
{
    if (run->batch > 0)
        logistic_drawn_gradient(run->problem, side->on.rank, side->weights, run->batch, rng,
                                side->gradients);
    else
        logistic_gradient(run->problem, side->on.rank, side->weights, side->gradients);
}

static void falsify_gradient(struct exchange_side *side, const struct convex_run *run, int step)
{
    enum { SEED = 6 };
    struct draw draw = { .seed = SEED + (uint64_t)side->on.rank, .step = (uint32_t)step };
    if (hostility_includes(&run->hostility, SEED, side->on.size, side->on.rank))
        hostility_issue(&run->hostility, &kernels_host, side->kernels, side->stream, &draw,
                        side->gradients, (size_t)run->problem->features);
}

bool exchange_side_train(struct exchange_side *side, struct convex_run *run)
{
    /* the exchange chooses its period by the loss */
    bool adapts = exchange_method_of(&side->exchange)->adapts;
    bool finds_loss = adapts || (run->losses && side->on.rank == 0);
    float mean[128];
    struct random rng = random_new(3, (uint64_t)side->on.rank);
    bool ok = true;
    for (int step = 0; step < run->steps && ok; step++) {
        double loss = 1;
        double rate = run->fades > 0 ? run->rate / (1 + step / run->fades) : run->rate;
        find_gradient(side, run, &rng);
        falsify_gradient(side, run, step);
        ok = exchange_side_sync(side);
        if (ok && (adapts || run->losses))
            ok = mean_weights(side, run->problem->features, mean);
        if (ok && finds_loss)
            loss = logistic_loss_of_floats(run->problem, mean);
        ok = ok && exchange_side_descend(side, step, rate, loss);
        if (run->losses && side->on.rank == 0)
            run->losses[step] = loss;
    }
    return ok && measure(side, run);
}
