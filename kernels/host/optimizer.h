/* kernels/host/optimizer.h - parameter updates, gradient norm and clipping.
 *
 * Arrays of n floats are shards of masters, gradients and moments, and do not overlap. Gradients
 * are multiplied by `gradient_scale` = clip factor / loss scale when they are read. */
#ifndef KERNELS_HOST_OPTIMIZER_H
#define KERNELS_HOST_OPTIMIZER_H

#include <stdbool.h>

/* w -= rate (g + decay w) */
struct sgd {
    float rate, decay, gradient_scale;
};
void sgd_update(const struct sgd *sgd, long n, const float *gradients, float *weights);

/* v = momentum v + (g + decay w), w -= rate v, as PyTorch's SGD without dampening; v starts at
 * 0. */
struct momentum {
    float rate, decay, gradient_scale, momentum;
};
void momentum_update(const struct momentum *momentum, long n, const float *gradients,
                     float *velocities, float *weights);

/* Loshchilov and Hutter 2019, algorithm 2: decay is decoupled; both moments start at 0 and are
 * bias-corrected. */
struct adamw {
    float rate, decay, gradient_scale;
    float beta1, beta2, epsilon;
    long step; /* number of this update, from 1 */
};
void adamw_update(const struct adamw *adamw, long n, const float *gradients, float *first_moments,
                  float *second_moments, float *weights);

/* Sum of squares, in double and in a fixed order. */
double gradient_squares(long n, const float *gradients);

/* The factor that clips gradients of norm `norm` to `limit`: min(1, limit / (norm + 1e-6)) as in
 * PyTorch and Megatron-LM; 1 when limit is 0. */
float gradient_clip(double norm, double limit);

/* Whether all gradients are finite. If not, a step with a loss scale is skipped. */
bool gradients_are_finite(long n, const float *gradients);

#endif
