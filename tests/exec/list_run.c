#include "tests/exec/list_run.h"

#include "tests/exec/host_device.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <string.h>

enum { SEED = 11, VOCAB = 10 };

long list_run_elements(const struct list_run *run, int value)
{
    return value == NO_ID ? 0 : (long)run->lists.forward.operands->values[value].bytes / 4;
}

long list_run_weight(const struct list_run *run, int weight)
{
    return (long)weight_elements(&run->piece.weights.at[weight]);
}

static void open_machine(struct list_run *run)
{
    struct err err = { 0 };
    struct machine *m = &run->machine;
    *m = (struct machine){ .plan = &run->plan,
                           .model = &run->model,
                           .device_api = &device_host,
                           .device = open_device(0, true),
                           .kernel_api = &kernels_host,
                           .storage = DTYPE_FP32,
                           .dims = { .batch = LIST_RUN_SEQUENCES },
                           .norm_epsilon = (float)run->model.norm_epsilon,
                           .loss = &run->loss,
                           .loss_gradient_scale = &run->loss_gradient_scale };
    m->compute = m->tensor_stream = new_stream(m->device);
    m->kernels = kernels_host.open(m->device, DTYPE_FP32, &err);
    ck_assert_msg(m->kernels, "%s", err.msg);
}

/* Gives each weight and its gradient a place in a store (one array for all weights). */
static void place_weights(struct list_run *run)
{
    struct piece *piece = &run->piece;
    struct numeric *n = &run->numeric;
    size_t count = (size_t)piece->weights.count;
    long elements = (long)piece->weights.elements;
    run->store = (struct store){ .elements = (size_t)elements,
                                 .values = numeric_floats(n, elements, 0.5),
                                 .gradients = numeric_zeros(n, elements) };
    piece->own = &run->store;
    run->weights = ARENA_ARRAY(&n->arena, float *, count);
    run->gradients = ARENA_ARRAY(&n->arena, float *, count);
    for (size_t i = 0; i < count; i++) {
        run->weights[i] = (float *)run->store.values + piece->weights.at[i].offset;
        run->gradients[i] = run->store.gradients + piece->weights.at[i].offset;
    }
}

static void place_values(struct list_run *run)
{
    struct numeric *n = &run->numeric;
    const struct ops *list = &run->lists.forward;
    long inputs = list_run_elements(run, list->input);
    long outputs = list_run_elements(run, list->output);
    run->x = numeric_floats(n, inputs, 1);
    run->dx = numeric_zeros(n, inputs);
    run->dy = numeric_floats(n, outputs, 1);
    run->y = numeric_zeros(n, outputs);
    for (int i = 0; i < list->aside.count; i++) {
        long elements = list_run_elements(run, list->aside.at[i]);
        run->aside[i] = numeric_floats(n, elements, 1);
        run->daside[i] = numeric_zeros(n, elements);
    }
    run->targets = ARENA_ARRAY(&n->arena, int64_t, (size_t)inputs);
    for (long i = 0; i < inputs; i++)
        run->targets[i] = random_below(&n->random, VOCAB);
    run->microbatch = (struct microbatch){ .targets = run->targets };
    run->loss_gradient_scale = 1;
}

void list_run_open(struct list_run *run, const struct listed *listed,
                   const struct layer_options *options)
{
    *run = (struct list_run){ .numeric = { .seed = SEED, .random = random_new(SEED, 0) } };
    struct arena *arena = &run->numeric.arena;
    run->model = (struct model){ .norm_epsilon = 1e-5, .vocab = VOCAB };
    run->plan = plan_of("dtype=fp32", arena);
    run->lists =
        local_lists(rank_share_of(&run->plan), listed_ops(listed, arena), options, false, arena);
    run->lifetimes = lifetimes_of(&run->lists);
    run->piece =
        (struct piece){ .ops = &run->lists, .lifetimes = &run->lifetimes, .value_bytes = 4 };
    run->piece.weights = weights_of(&run->lists.forward, rank_share_of(&run->plan), 0, arena);
    run->piece.saved = saved_layout_of(&run->lists.forward, KEEP_ALL, NULL, 0, arena);
    open_machine(run);
    place_weights(run);
    place_values(run);
}

static void *to_device(struct list_run *run, const float *x, long elements)
{
    size_t bytes = sizeof *x * (size_t)elements;
    void *at = machine_take(&run->machine, bytes);
    if (at)
        device_host.copy(run->machine.compute, at, x, bytes);
    return at;
}

static void from_device(struct list_run *run, void *at, float *x, long elements)
{
    ck_assert_int_eq(at != NULL, elements > 0);
    if (at)
        device_host.copy(run->machine.compute, x, at, sizeof *x * (size_t)elements);
    machine_give_back(&run->machine, at);
}

static size_t used_bytes(const struct list_run *run)
{
    return device_host.memory(run->machine.device).used_bytes;
}

static void run_forward(struct list_run *run)
{
    struct machine *m = &run->machine;
    const struct ops *list = &run->lists.forward;
    run->loss = 0;
    memset(&run->record, 0, sizeof run->record);
    run->record.saved.kept = machine_take(m, run->piece.saved.kept_bytes);
    void *x = to_device(run, run->x, list_run_elements(run, list->input));
    for (int i = 0; i < list->aside.count; i++)
        run->record.values[list->aside.at[i]] =
            to_device(run, run->aside[i], list_run_elements(run, list->aside.at[i]));
    void *y = machine_forward(m, &run->piece, &run->microbatch, &run->record, x);
    from_device(run, y, run->y, list_run_elements(run, list->output));
    run->forward_bytes = used_bytes(run);
}

static void run_backward(struct list_run *run, bool in_halves)
{
    struct machine *m = &run->machine;
    const struct ops *list = &run->lists.forward;
    memset(run->store.gradients, 0, sizeof(float) * run->store.elements);
    void *dy = to_device(run, run->dy, list_run_elements(run, list->output));
    void *dx = machine_backward(m, &run->piece, &run->microbatch, &run->record, dy,
                                in_halves ? GRADIENTS_OF_INPUTS : GRADIENTS_ALL);
    from_device(run, dx, run->dx, list_run_elements(run, list->input));
    const struct ids *gradients = &run->lists.backward.aside;
    for (int i = 0; i < gradients->count; i++) {
        void **at = &run->record.values[gradients->at[i]];
        from_device(run, *at, run->daside[i], list_run_elements(run, list->aside.at[i]));
        *at = NULL;
    }
    if (in_halves)
        machine_backward(m, &run->piece, &run->microbatch, &run->record, NULL,
                         GRADIENTS_OF_WEIGHTS);
}

void list_run_once(struct list_run *run, bool in_halves)
{
    run_forward(run);
    run_backward(run, in_halves);
    machine_give_back(&run->machine, run->record.saved.kept);
    sync_stream(run->machine.compute);
    ck_assert_int_eq(run->machine.err.code, ERR_NONE);
    ck_assert_uint_eq(used_bytes(run), 0);
}

void list_run_close(struct list_run *run)
{
    struct machine *m = &run->machine;
    kernels_host.close(m->kernels);
    device_host.stream_free(m->compute);
    device_host.close(m->device);
    numeric_end(&run->numeric);
}
