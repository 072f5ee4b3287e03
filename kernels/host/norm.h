/* kernels/host/norm.h - LayerNorm, RMSNorm and the norm of each query and key head (OP_NORM).
 *
 * x, y, dx, dy [rows, width], gamma, beta [width]. LayerNorm: Ba, Kiros and Hinton 2016; RMSNorm:
 * Zhang and Sennrich 2019. The backward reads x and the statistics saved per row. y may be x, dx
 * may be dy; nothing else may overlap. Weight gradients are accumulated in row order. */
#ifndef KERNELS_HOST_NORM_H
#define KERNELS_HOST_NORM_H

#include "kernels/host/attention.h"

struct norm {
    long rows, width;
    float epsilon; /* added to the variance (LayerNorm) or the mean square (RMSNorm) */
};

/* y = (x - mean) rstd gamma + beta; saves mean[rows] and rstd[rows]. */
void layer_norm_forward(const struct norm *norm, const float *x, const float *gamma,
                        const float *beta, float *y, float *mean, float *rstd);
void layer_norm_backward(const struct norm *norm, const float *dy, const float *x,
                         const float *gamma, const float *mean, const float *rstd, float *dx,
                         float *dgamma, float *dbeta);

/* y = x rstd gamma; saves rstd[rows]. */
void rms_norm_forward(const struct norm *norm, const float *x, const float *gamma, float *y,
                      float *rstd);
void rms_norm_backward(const struct norm *norm, const float *dy, const float *x, const float *gamma,
                       const float *rstd, float *dx, float *dgamma);

/* RMSNorm of each head's query and key inside packed qkv, in place; values are unchanged. All query
 * heads share one gamma[head_dim]; all key heads share a second one. Saves the inputs, [tokens,
 * kv_heads, heads / kv_heads + 1, head_dim], and their rstd, [tokens, heads + kv_heads]. */
struct head_norm_weights {
    const float *query, *key;
};
struct head_norm_gradients {
    float *query, *key;
};
void head_norm_forward(const struct attention *attention, float epsilon,
                       struct head_norm_weights gamma, float *qkv, float *inputs, float *rstd);
/* Changes dqkv in place. */
void head_norm_backward(const struct attention *attention, struct head_norm_weights gamma,
                        const float *inputs, const float *rstd, float *dqkv,
                        struct head_norm_gradients dgamma);

#endif
