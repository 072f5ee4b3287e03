/* kernels/host/optimizer.h - parameter updates and what is decided from all gradients.
 *
 * Arrays of n floats are shards: masters, gradients and moments, none overlapping another.
 * `gradient_scale` multiplies the gradients as they are read: the clip factor over the loss scale.
 */
#ifndef KERNELS_HOST_OPTIMIZER_H
#define KERNELS_HOST_OPTIMIZER_H

#include <stdbool.h>

/* w -= rate (g + decay w) */
struct sgd {
    float rate, decay, gradient_scale;
};
void sgd_update(const struct sgd *sgd, long n, const float *gradients, float *weights);

/* v = momentum v + (g + decay w), w -= rate v: PyTorch's SGD without dampening, v from 0. */
struct momentum {
    float rate, decay, gradient_scale, momentum;
};
void momentum_update(const struct momentum *momentum, long n, const float *gradients,
                     float *velocities, float *weights);

/* Loshchilov and Hutter 2019, algorithm 2: decay is decoupled, both moments start at 0 and are
 * corrected for it. */
struct adamw {
    float rate, decay, gradient_scale;
    float beta1, beta2, epsilon;
    long step; /* of this update, from 1 */
};
void adamw_update(const struct adamw *adamw, long n, const float *gradients, float *first_moments,
                  float *second_moments, float *weights);

/* Sum of squares, in double and one order. */
double gradient_squares(long n, const float *gradients);

/* What brings a norm down to `limit`: min(1, limit / (norm + 1e-6)) as PyTorch and Megatron-LM do;
 * 1 where limit is 0. */
float gradient_clip(double norm, double limit);

/* No infinity and no NaN: else a step under a loss scale is skipped. */
bool gradients_are_finite(long n, const float *gradients);

#endif
