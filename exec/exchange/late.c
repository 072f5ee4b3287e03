/* Sums of gradients that are applied some steps late: a step sums the gradients of the previous
 * step while its own passes run. Sums wait in a ring buffer, and each step applies the oldest sum
 * in it. All sums are zero at first. */
#include "exec/exchange/methods.h"

static size_t staleness(const struct exchanger *e)
{
    return (size_t)e->exchange.staleness;
}

/* The buffer of the sum of step `step`. */
static float *waiting(const struct exchanger *e, int step)
{
    return e->late + (size_t)step % staleness(e) * e->padded;
}

double late_memory_elements(const struct exchange *exchange, const struct exchange_load *load,
                            const struct exchange_ranks *ranks)
{
    (void)ranks;
    return (2 + exchange->staleness) * exchange_elements(load);
}

bool late_open(struct exchanger *e, struct err *err)
{
    return (e->received = exchanger_take(e, e->padded, err)) &&
           (e->pending = exchanger_take(e, e->padded, err)) &&
           (e->late = exchanger_take(e, staleness(e) * e->padded, err));
}

int late_kept(const struct exchanger *e, struct kept *out)
{
    out[0] = (struct kept){ e->pending, e->padded };
    out[1] = (struct kept){ e->late, staleness(e) * e->padded };
    return 2;
}

void late_begin(struct exchanger *e)
{
    sum_by_phases(e, e->pending);
    exchanger_copy(e, waiting(e, e->step), e->pending, e->padded);
}

void late_sum(struct exchanger *e, float *gradients)
{
    exchanger_copy(e, e->pending, gradients, e->padded);
    exchanger_copy(e, gradients, waiting(e, e->step + 1), e->padded);
}
