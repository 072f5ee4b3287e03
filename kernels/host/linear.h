/* kernels/host/linear.h - a linear layer and its gradients (OP_GEMM, OP_BIAS_GRAD).
 *
 * x [rows, in], y [rows, out], weight [out, in], bias [out]; rows are tokens. All arrays are
 * row-major and contiguous. Sizes are those of one rank: a column-parallel layer has a part of
 * `out`, a row-parallel layer a part of `in`. The backward needs x and the weight. Outputs must not
 * overlap inputs. */
#ifndef KERNELS_HOST_LINEAR_H
#define KERNELS_HOST_LINEAR_H

#include "kernels/host/blas.h"

struct linear {
    long rows, out, in;
    const struct blas *blas;
};

/* y = x weight^T + bias; a NULL bias adds nothing. */
void linear_forward(const struct linear *linear, const float *x, const float *weight,
                    const float *bias, float *y);

/* dx = dy weight */
void linear_input_gradient(const struct linear *linear, const float *dy, const float *weight,
                           float *dx);

/* dweight += dy^T x, into the fp32 main gradient. */
void linear_weight_gradient(const struct linear *linear, const float *dy, const float *x,
                            float *dweight);

/* dbias[width] += sum of the rows of dy [rows, width], summed in row order. */
void linear_bias_gradient(long rows, long width, const float *dy, float *dbias);

#endif
