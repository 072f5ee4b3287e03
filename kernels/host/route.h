/* kernels/host/route.h - chooses each token's experts, and moves rows to them and back (OP_ROUTE,
 * OP_DISPATCH, OP_COMBINE).
 *
 * Each expert has `capacity` consecutive places, given to tokens in token order; a token whose
 * expert is full gets no place there (Fedus et al. 2021, Switch Transformers, 2.2). */
#ifndef KERNELS_HOST_ROUTE_H
#define KERNELS_HOST_ROUTE_H

#include <stdint.h>

struct route {
    long rows, experts, chosen, capacity;
};

/* Chooses the `chosen` largest of logits [rows, experts] per row, largest first, the lower index on
 * a tie. shares [rows, chosen] is the softmax over them. places [rows, chosen] is expert x capacity
 * + place, or -1 - expert when the expert is full. */
void route_choose(const struct route *route, const float *logits, float *shares, int32_t *places);
/* dshares of a token without a place is 0. */
void route_choose_gradient(const struct route *route, const float *dshares, const float *shares,
                           const int32_t *places, float *dlogits);

/* Rows of `width`, each with `chosen` places; num_places over all experts. Shares NULL: all 1. */
struct passage {
    long rows, width, chosen, num_places;
};

/* y [num_places]: x [rows] times its share when a place has a token, else 0. */
void passage_spread(const struct passage *passage, const float *x, const float *shares,
                    const int32_t *places, float *y);
/* y [rows]: the sum over a row's places of x [num_places] times its share. */
void passage_gather(const struct passage *passage, const float *x, const float *shares,
                    const int32_t *places, float *y);
/* dshares of a gather: dy [rows] by x [num_places]. */
void passage_share_gradient(const struct passage *passage, const float *dy, const float *x,
                            const int32_t *places, float *dshares);

#endif
