/* kernels/host/activation.h - the activation between the two linear layers of the feed-forward
 * (OP_ACTIVATION), including the first one's bias.
 *
 * Plain: x, dx [rows, width]. Gated: x, dx [rows, width, 2]. The gate and up values of one output
 * are adjacent: they come from rows 2i and 2i + 1 of the fc1 weight. A tensor rank's part of the
 * fused weight is therefore a contiguous block for any number of ranks. A checkpoint with [gate;
 * up] blocks must be interleaved when it is read. y, dy [rows, width]. bias has the size of one row
 * of x, or is NULL. The backward reads the same x as the forward; the bias's gradient is
 * linear_bias_gradient of dx. dx may be x; in the plain case y may also be x, and dx may be dy;
 * nothing else may overlap.
 *
 * gelu is the tanh form of Hendrycks and Gimpel 2016, x / (1 + exp(-2 u)) with u = sqrt(2 / pi) (x
 * + 0.044715 x^3); silu is x / (1 + exp(-x)); gated forms are those of Shazeer 2020; relu2 is the
 * square of relu (So et al. 2021). */
#ifndef KERNELS_HOST_ACTIVATION_H
#define KERNELS_HOST_ACTIVATION_H

#include "models/model.h"

struct activation_shape {
    enum activation_kind kind;
    long rows, width;
};

/* Values in a row of x: width, or 2 width when gated. */
long activation_inputs(const struct activation_shape *shape);

void activation_forward(const struct activation_shape *shape, const float *x, const float *bias,
                        float *y);
void activation_backward(const struct activation_shape *shape, const float *dy, const float *x,
                         const float *bias, float *dx);

#endif
