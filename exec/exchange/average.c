/* Averages of weights, over neighbours or over all data ranks. */
#include "exec/exchange/methods.h"

/* Number of elements that a rank receives from all its neighbours in a step. */
double average_memory_elements(const struct exchange *exchange, const struct exchange_load *load,
                               const struct exchange_ranks *ranks)
{
    struct exchange_phases phases = exchange_phases_of(exchange, load, ranks, false);
    double bytes = 0;
    for (int i = 0; i < phases.count; i++)
        if (phases.at[i].kind == PHASE_PEERS)
            bytes += phases.at[i].peers * phases.at[i].bytes;
    return bytes / load->element_bytes;
}

bool average_open(struct exchanger *e, struct err *err)
{
    struct exchange_load padded = { &(struct exchange_tensor){ (double)e->padded, 1, 1 }, 1,
                                    sizeof(float) };
    double elements = average_memory_elements(&e->exchange, &padded, &e->on.ranks);
    e->received = elements > 0 ? exchanger_take(e, (size_t)elements, err) : NULL;
    return e->received || elements == 0;
}

/* Number of ranks whose gradients are summed. Ranks that act as one train on the sum of their
 * gradients. */
int average_num_summed(const struct exchanger *e)
{
    bool sums = e->phases.count > 0 && e->phases.at[0].object == EXCHANGE_GRADIENTS;
    return sums ? e->phases.at[0].size : 1;
}

void average_sum(struct exchanger *e, float *gradients)
{
    struct span all = { gradients, e->padded };
    if (average_num_summed(e) > 1)
        phase_run(e, &e->phases.at[0], &all);
}

static void average_all(struct exchanger *e, const struct exchange_phase *phase, struct span part)
{
    phase_run(e, phase, &part);
    exchanger_combine(e, 1 / (float)phase->size, part.at, 0, part.at, part.at, part.count);
}

/* In a group that acts as one, each member averages an equal part. */
static struct span own_part(const struct exchanger *e, struct span all)
{
    const struct group *near = e->on.groups->near;
    return near ? span_part(all, near->index, near->size) : all;
}

void average_weights(struct exchanger *e, const float *weights, float *out)
{
    struct span part = own_part(e, (struct span){ out, e->padded });
    exchanger_copy(e, out, weights, e->padded);
    for (int i = 0; i < e->phases.count; i++) {
        const struct exchange_phase *phase = &e->phases.at[i];
        if (phase->object == EXCHANGE_GRADIENTS)
            continue;
        if (phase->kind == PHASE_PEERS)
            peers_average(e, phase_group(e, phase), weights + (part.at - out), part);
        else if (phase->kind == PHASE_ALL_REDUCE)
            average_all(e, phase, part);
        else
            phase_run(e, phase, &part);
    }
}
