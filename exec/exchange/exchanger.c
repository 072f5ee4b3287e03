/* Opens an exchanger, which carries out a method of gradient exchange on one rank, and runs its
 * steps. */
#include "exec/exchange/exchanger_part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool exchanger_can_run(const struct exchange *exchange, const struct kernel_api *kernel_api,
                       struct err *err)
{
    const char *name = exchange_method_of(exchange)->name;
    bool has_kernels = exchange_method_of(exchange)->rule ? kernel_api->robust_trim != NULL
                                                          : kernel_api->combine != NULL;
    if (!has_kernels && exchange_runner_of(exchange)->combines)
        return err_set(err, ERR_UNAVAILABLE, "exchange",
                       "exchange=%s can't be run yet on %s, which has no kernels for it", name,
                       kernel_api->name);
    return true;
}

/* Name of the state kept between steps. With memory=off top-k keeps nothing, but PowerSGD keeps its
 * factors. */
const char *exchange_keeps(const struct exchange *exchange)
{
    const struct exchange_runner *runner = exchange_runner_of(exchange);
    bool forgets = exchange->memory == MEMORY_OFF && runner->keeps_memory_alone;
    return forgets ? NULL : runner->keeps;
}

int exchanger_kept(const struct exchanger *e, struct kept out[MAX_KEPT])
{
    return e->runner->kept ? e->runner->kept(e, out) : 0;
}

struct exchange_period exchanger_period(const struct exchanger *e)
{
    return (struct exchange_period){ e->since, e->exchange.period, e->first_loss };
}

void exchanger_set_period(struct exchanger *e, struct exchange_period period)
{
    e->since = period.since;
    e->exchange.period = period.period;
    e->first_loss = period.first_loss;
}

double exchanger_memory_bytes(const struct exchange *exchange, const struct exchange_load *load,
                              const struct exchange_ranks *ranks)
{
    return (double)sizeof(float) *
           exchange_runner_of(exchange)->memory_elements(exchange, load, ranks);
}

/* --- opening and closing ------------------------------------------------------------------ */

static void copy_tensors(struct exchanger *e)
{
    const struct exchanger_setup *setup = &e->on;
    size_t count = (size_t)setup->num_tensors;
    struct exchange_tensor *tensors = ARENA_ARRAY(&e->arena, struct exchange_tensor, count);
    memcpy(tensors, setup->tensors, sizeof *tensors * count);
    e->load = (struct exchange_load){ tensors, setup->num_tensors, sizeof(float) };
    e->on.tensors = tensors;
    e->elements = (size_t)exchange_elements(&e->load);
}

/* Number of equal parts into which the steps' phases divide the elements. The elements are padded
 * to a multiple of it. Averages over all ranks need no padding. */
static size_t parts_needed(const struct exchanger *e)
{
    struct exchange_phases phases = exchange_phases(&e->exchange, &e->load, &e->on.ranks, 0);
    int parts = e->on.groups->near ? e->on.groups->near->size : 1;
    for (int i = 0; i < phases.count; i++)
        parts = phase_parts(&phases.at[i]) > parts ? phase_parts(&phases.at[i]) : parts;
    return (size_t)parts;
}

struct exchanger *exchanger_new(const struct exchanger_setup *setup, struct err *err)
{
    struct exchanger *e = arena_grow(NULL, sizeof *e);
    *e = (struct exchanger){ .on = *setup,
                             .exchange = *setup->exchange,
                             .runner = exchange_runner_of(setup->exchange) };
    copy_tensors(e);
    size_t parts = parts_needed(e);
    e->padded = (e->elements + parts - 1) / parts * parts;
    if (e->runner->open(e, err))
        return e;
    exchanger_free(e);
    return NULL;
}

/* Frees the host data. Device memory is freed with the device. */
void exchanger_free(struct exchanger *e)
{
    if (!e)
        return;
    arena_release(&e->arena);
    free(e);
}

size_t exchanger_elements(const struct exchanger *e)
{
    return e->padded;
}

/* --- a step ------------------------------------------------------------------------------- */

void exchanger_begin_step(struct exchanger *e, int step)
{
    e->step = step;
    e->ends_period = e->exchange.period <= 1 || ++e->since >= e->exchange.period;
    e->phases = exchange_phases_of(&e->exchange, &e->load, &e->on.ranks, e->ends_period);
    for (int i = 0; i < e->phases.count; i++)
        e->planned_bytes += phase_wire_bytes(&e->phases.at[i], e->on.ranks.count);
}

int exchanger_num_summed(const struct exchanger *e)
{
    return e->runner->num_summed ? e->runner->num_summed(e) : e->on.ranks.count;
}

void exchanger_sum(struct exchanger *e, float *gradients)
{
    e->runner->sum(e, gradients);
}

bool exchanger_begins_early(const struct exchanger *e)
{
    return e->runner->begin != NULL;
}

void exchanger_begin(struct exchanger *e)
{
    e->runner->begin(e);
}

bool exchanger_averages(const struct exchanger *e)
{
    return e->runner->average && e->phases.count > 0;
}

void exchanger_average(struct exchanger *e, const float *weights, float *out)
{
    e->runner->average(e, weights, out);
}

static bool adapts(const struct exchanger *e)
{
    return exchange_method_of(&e->exchange)->adapts;
}

bool exchanger_wants_loss(const struct exchanger *e)
{
    return adapts(e) && (e->first_loss == 0 || e->ends_period);
}

void exchanger_end_step(struct exchanger *e, double loss)
{
    if (adapts(e) && e->first_loss == 0)
        e->first_loss = loss;
    if (!e->ends_period)
        return;
    e->since = 0;
    if (adapts(e))
        e->exchange.period = exchange_adapted_period(e->on.exchange, e->first_loss, loss);
}

double exchanger_planned_bytes(const struct exchanger *e)
{
    return e->planned_bytes;
}
