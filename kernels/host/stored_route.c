/* Kernels that move tokens to experts and back. */
#include "kernels/host/stored.h"
#include "kernels/host/widen.h"

void stored_route_forward(const struct host_kernels *k, const struct route_forward *a)
{
    struct widening w = { .storage = k->storage };
    route_choose(&a->route, widen(&w, a->logits, a->route.rows * a->route.experts), a->shares,
                 a->places);
    widening_end(&w);
}

void stored_route_backward(const struct host_kernels *k, const struct route_backward *a)
{
    struct widening w = { .storage = k->storage };
    route_choose_gradient(&a->route, a->dshares, a->shares, a->places,
                          widen_output(&w, a->dlogits, a->route.rows * a->route.experts));
    widening_end(&w);
}

void stored_spread(const struct host_kernels *k, const struct passage_args *a)
{
    struct widening w = { .storage = k->storage };
    const float *x = widen(&w, a->x, a->passage.rows * a->passage.width);
    passage_spread(&a->passage, x, a->shares, a->places,
                   widen_output(&w, a->y, a->passage.num_places * a->passage.width));
    widening_end(&w);
}

void stored_gather(const struct host_kernels *k, const struct passage_args *a)
{
    struct widening w = { .storage = k->storage };
    const float *x = widen(&w, a->x, a->passage.num_places * a->passage.width);
    passage_gather(&a->passage, x, a->shares, a->places,
                   widen_output(&w, a->y, a->passage.rows * a->passage.width));
    widening_end(&w);
}

void stored_share_gradient(const struct host_kernels *k, const struct share_gradient *a)
{
    struct widening w = { .storage = k->storage };
    const float *dy = widen(&w, a->dy, a->passage.rows * a->passage.width);
    const float *x = widen(&w, a->x, a->passage.num_places * a->passage.width);
    passage_share_gradient(&a->passage, dy, x, a->places, a->dshares);
    widening_end(&w);
}
