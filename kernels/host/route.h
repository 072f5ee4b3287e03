/* kernels/host/route.h - chooses each token's experts, moves rows to the experts, and moves the
 * results back (OP_ROUTE, OP_DISPATCH, OP_COMBINE).
 *
 * Each expert has `capacity` consecutive places (rows of its input), which are assigned in token
 * order. If an expert is full, later tokens get no place there (Fedus et al. 2021, Switch
 * Transformers, 2.2). */
#ifndef KERNELS_HOST_ROUTE_H
#define KERNELS_HOST_ROUTE_H

#include <stdint.h>

struct route {
    long rows, experts, chosen, capacity;
};

/* For each row of logits [rows, experts], chooses the `chosen` largest logits, largest first; on a
 * tie the lower index comes first. shares [rows, chosen] is the softmax over the chosen logits.
 * places [rows, chosen] is expert x capacity + place, or -1 - expert when the expert is full. */
void route_choose(const struct route *route, const float *logits, float *shares, int32_t *places);
/* Where a token got no place, dshares counts as 0. */
void route_choose_gradient(const struct route *route, const float *dshares, const float *shares,
                           const int32_t *places, float *dlogits);

/* A mapping from rows of `width` values to places of all experts: each row has `chosen` of the
 * num_places places. In the functions below, NULL shares count as 1. */
struct passage {
    long rows, width, chosen, num_places;
};

/* y [num_places]: for a place with a token, the token's row of x [rows] times its share; else 0. */
void passage_spread(const struct passage *passage, const float *x, const float *shares,
                    const int32_t *places, float *y);
/* y [rows]: the sum over a row's places of x [num_places] times the place's share. */
void passage_gather(const struct passage *passage, const float *x, const float *shares,
                    const int32_t *places, float *y);
/* The gradient of the shares in passage_gather: the dot product of dy [rows] and x [num_places] at
 * each place. */
void passage_share_gradient(const struct passage *passage, const float *dy, const float *x,
                            const int32_t *places, float *dshares);

#endif
