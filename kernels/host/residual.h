/* kernels/host/residual.h - bias, dropout and the sum with the residual stream (OP_RESIDUAL).
 *
 * All arrays are [rows, width], except bias [width]. With sequence parallelism the rows are this
 * rank's part. y may be x or h; nothing else may overlap. */
#ifndef KERNELS_HOST_RESIDUAL_H
#define KERNELS_HOST_RESIDUAL_H

#include "kernels/host/philox.h"

struct residual {
    long rows, width;
    double dropout; /* 0: no dropout, and the other members are ignored */
    struct draw draw;
    uint64_t first_row; /* sequence * seq + position of the first row. Sequences are counted from
                           draw.place->first_sequence or, without a place, over the global batch */
    long seq;           /* rows of a sequence; used when the draw has a place */
};

/* y = h + keep (x + bias) / (1 - dropout). A NULL bias or h is zero. With dropout it saves keeps
 * [rows, width] (1 or 0); without dropout keeps is NULL. */
void residual_forward(const struct residual *residual, const float *x, const float *bias,
                      const float *h, uint8_t *keeps, float *y);

/* dx = keep dy / (1 - dropout), which is dy without dropout; dx may be dy. The gradient of h is dy;
 * the gradient of the bias is linear_bias_gradient of dx. */
void residual_backward(const struct residual *residual, const float *dy, const uint8_t *keeps,
                       float *dx);

/* sum += x for n values. Used to add up the gradients of the residual stream's branches. */
void residual_add(long n, const float *x, float *sum);

#endif
