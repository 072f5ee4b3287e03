/* kernels/host/route.h - which experts a token goes to, and rows on their way there and back
 * (OP_ROUTE, OP_DISPATCH, OP_COMBINE).
 *
 * Each expert has `capacity` places, one behind the other; tokens get them in their order, and one
 * that finds its expert full is left out there (Fedus et al. 2021, Switch Transformers, 2.2). */
#ifndef KERNELS_HOST_ROUTE_H
#define KERNELS_HOST_ROUTE_H

#include <stdint.h>

struct route {
    long rows, experts, chosen, capacity;
};

/* logits [rows, experts] -> of the chosen largest, of equal ones the first, largest first: shares
 * [rows, chosen], the softmax over them, and places [rows, chosen]: expert x capacity + place, or
 * -1 - expert where it is full. */
void route_choose(const struct route *route, const float *logits, float *shares, int32_t *places);
/* dshares of one without place is 0. */
void route_choose_gradient(const struct route *route, const float *dshares, const float *shares,
                           const int32_t *places, float *dlogits);

/* Rows of `width`, and `places` of `chosen` for each; num_places of all experts. Shares NULL: 1. */
struct passage {
    long rows, width, chosen, num_places;
};

/* y [num_places]: x [rows] times its share where a place has a token, else 0. */
void passage_spread(const struct passage *passage, const float *x, const float *shares,
                    const int32_t *places, float *y);
/* y [rows]: the sum over a row's places of x [num_places] times its share. */
void passage_gather(const struct passage *passage, const float *x, const float *shares,
                    const int32_t *places, float *y);
/* dshares of a gather: dy [rows] by x [num_places]. */
void passage_share_gradient(const struct passage *passage, const float *dy, const float *x,
                            const int32_t *places, float *dshares);

#endif
