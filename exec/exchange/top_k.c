/* Top-k methods, whose messages have only the largest elements: one round with error feedback
 * (Stich, Cordonnier and Jaggi 2018), several rounds (Huang et al. 2022), or EF21, which sends
 * changes (Richtarik, Sokolov and Fatkhullin 2021). */
#include "exec/exchange/methods.h"
#include "sim/exchange/topk.h"

static size_t kept(const struct exchanger *e)
{
    return (size_t)topk_count(&e->exchange, (double)e->elements);
}

/* A rank's message: indices, then values. */
static struct top_k_args message_of(const struct exchanger *e, int rank)
{
    uint32_t *indices = exchanger_message(e, rank);
    return (struct top_k_args){ .n = (long)e->elements,
                                .k = (long)kept(e),
                                .indices = indices,
                                .values = (float *)(void *)(indices + kept(e)) };
}

static void add_message(struct exchanger *e, int rank, float *sum)
{
    struct top_k_args args = message_of(e, rank);
    args.x = sum;
    e->on.kernel_api->top_k_add(e->on.kernels, e->on.stream, &args);
}

/* Moves the largest elements of e->memory to a message and sends it to all ranks. The buffer has
 * gradients, with or without fed-back errors; with EF21 it has their difference from this rank's
 * estimate. */
static void exchange_largest(struct exchanger *e)
{
    struct top_k_args own = message_of(e, e->on.groups->all->index);
    own.x = e->memory;
    e->on.kernel_api->top_k_take(e->on.kernels, e->on.stream, &own);
    exchanger_gather_messages(e);
}

static void add_messages(struct exchanger *e, float *sum)
{
    for (int rank = 0; rank < e->on.ranks.count; rank++)
        add_message(e, rank, sum);
}

bool top_k_open(struct exchanger *e, struct err *err)
{
    e->memory = exchanger_take(e, e->elements, err);
    return e->memory && exchanger_take_messages(e, (double)(TOPK_ELEMENT_BYTES * kept(e)), err);
}

int memory_kept(const struct exchanger *e, struct kept *out)
{
    out[0] = (struct kept){ e->memory, e->elements };
    return e->exchange.memory == MEMORY_ON;
}

double top_k_memory_elements(const struct exchange *exchange, const struct exchange_load *load,
                             const struct exchange_ranks *ranks)
{
    return exchange_elements(load) + message_memory_elements(exchange, load, ranks);
}

void top_k_sum(struct exchanger *e, float *gradients)
{
    if (e->exchange.memory == MEMORY_ON)
        exchanger_add(e, e->memory, gradients, e->elements);
    else
        exchanger_copy(e, e->memory, gradients, e->elements);
    exchanger_clear(e, gradients, e->padded);
    for (int round = 0; round < e->phases.count; round++) {
        exchange_largest(e);
        add_messages(e, gradients);
    }
}

/* --- EF21 --------------------------------------------------------------------------------- */

bool ef21_open(struct exchanger *e, struct err *err)
{
    return top_k_open(e, err) && (e->own = exchanger_take(e, e->elements, err)) &&
           (e->sum = exchanger_take(e, e->elements, err));
}

int ef21_kept(const struct exchanger *e, struct kept *out)
{
    out[0] = (struct kept){ e->own, e->elements };
    out[1] = (struct kept){ e->sum, e->elements };
    return 2;
}

double ef21_memory_elements(const struct exchange *exchange, const struct exchange_load *load,
                            const struct exchange_ranks *ranks)
{
    return 2 * exchange_elements(load) + top_k_memory_elements(exchange, load, ranks);
}

/* EF21 with compressor C: rank i sends C(gradient_i - g_i) and adds it to its estimate g_i. All
 * ranks add these messages to their sum of the g_i. */
void ef21_sum(struct exchanger *e, float *gradients)
{
    exchanger_combine(e, 1, gradients, -1, e->own, e->memory, e->elements);
    exchange_largest(e);
    add_message(e, e->on.groups->all->index, e->own);
    add_messages(e, e->sum);
    exchanger_copy(e, gradients, e->sum, e->elements);
}
