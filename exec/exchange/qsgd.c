/* QSGD: every rank sends its gradients, quantised to a few bits, to all ranks. */
#include "sim/exchange/qsgd.h"

#include "exec/exchange/methods.h"

static long num_norms(const struct exchanger *e)
{
    return ((long)e->elements + QSGD_BUCKET - 1) / QSGD_BUCKET;
}

/* A rank's message: norms, then codes. */
static struct quantise_args message_of(const struct exchanger *e, int rank)
{
    float *norms = exchanger_message(e, rank);
    return (struct quantise_args){
        .quantiser = { e->exchange.bits, qsgd_levels(e->exchange.bits), QSGD_BUCKET },
        .draw = e->on.draw,
        /* an offset larger than the number of elements of any rank */
        .first = (uint64_t)rank << 40,
        .n = (long)e->elements,
        .norms = norms,
        .codes = (uint32_t *)(void *)(norms + num_norms(e)),
    };
}

bool qsgd_open(struct exchanger *e, struct err *err)
{
    const struct compressor *compressor = exchange_method_of(&e->exchange)->compressor;
    return exchanger_take_messages(e, compressor->message_bytes(&e->exchange, &e->load), err);
}

double message_memory_elements(const struct exchange *exchange, const struct exchange_load *load,
                               const struct exchange_ranks *ranks)
{
    double bytes = exchange_method_of(exchange)->compressor->message_bytes(exchange, load);
    return bytes * ranks->count / (double)sizeof(float);
}

void qsgd_sum(struct exchanger *e, float *gradients)
{
    struct quantise_args own = message_of(e, e->on.groups->all->index);
    own.draw.step = (uint32_t)e->step;
    own.x = gradients;
    e->on.kernel_api->quantise(e->on.kernels, e->on.stream, &own);
    exchanger_gather_messages(e);
    exchanger_clear(e, gradients, e->padded);
    for (int rank = 0; rank < e->on.ranks.count; rank++) {
        struct quantise_args message = message_of(e, rank);
        struct dequantise_args args = { message.quantiser, message.n, message.norms, message.codes,
                                        gradients };
        e->on.kernel_api->dequantise_add(e->on.kernels, e->on.stream, &args);
    }
}
