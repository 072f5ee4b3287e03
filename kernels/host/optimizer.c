/* Parameter updates, the gradient norm and clipping on the CPU. */
#include "kernels/host/optimizer.h"

#include "kernels/host/vector.h"

#include <math.h>

EACH_MACHINE
void sgd_update(const struct sgd *sgd, long n, const float *restrict gradients,
                float *restrict weights)
{
    struct sgd s = *sgd;
    for (long i = 0; i < n; i++)
        weights[i] -= s.rate * (s.gradient_scale * gradients[i] + s.decay * weights[i]);
}

EACH_MACHINE
void momentum_update(const struct momentum *momentum, long n, const float *restrict gradients,
                     float *restrict velocities, float *restrict weights)
{
    struct momentum m = *momentum;
    for (long i = 0; i < n; i++) {
        float gradient = m.gradient_scale * gradients[i] + m.decay * weights[i];
        velocities[i] = m.momentum * velocities[i] + gradient;
        weights[i] -= m.rate * velocities[i];
    }
}

/* The bias correction of a moment that started at 0. */
static double correction(float beta, long step)
{
    return 1 - pow((double)beta, (double)step);
}

EACH_MACHINE
static void adamw_loop(const struct adamw *adamw, float step_size, float root_scale, long n,
                       const float *restrict gradients, float *restrict first,
                       float *restrict second, float *restrict weights)
{
    struct adamw a = *adamw;
    float kept = 1 - a.rate * a.decay;
    for (long i = 0; i < n; i++) {
        float gradient = a.gradient_scale * gradients[i];
        first[i] = a.beta1 * first[i] + (1 - a.beta1) * gradient;
        second[i] = a.beta2 * second[i] + (1 - a.beta2) * (gradient * gradient);
        float root = sqrtf(second[i]) * root_scale + a.epsilon;
        weights[i] = kept * weights[i] - step_size * (first[i] / root);
    }
}

void adamw_update(const struct adamw *adamw, long n, const float *gradients, float *first_moments,
                  float *second_moments, float *weights)
{
    double step_size = (double)adamw->rate / correction(adamw->beta1, adamw->step);
    double root_scale = 1 / sqrt(correction(adamw->beta2, adamw->step));
    adamw_loop(adamw, (float)step_size, (float)root_scale, n, gradients, first_moments,
               second_moments, weights);
}

EACH_MACHINE
double gradient_squares(long n, const float *gradients)
{
    lanes_f64 sums = { 0 };
    long i = 0;
    for (; i + NUM_LANES_F64 <= n; i += NUM_LANES_F64) {
        double values[NUM_LANES_F64];
        for (int j = 0; j < NUM_LANES_F64; j++)
            values[j] = (double)gradients[i + j];
        lanes_f64 value;
        memcpy(&value, values, sizeof value);
        sums += value * value;
    }
    for (; i < n; i++)
        sums[0] += (double)gradients[i] * (double)gradients[i];
    double sum = 0;
    for (int j = 0; j < NUM_LANES_F64; j++)
        sum += sums[j];
    return sum;
}

float gradient_clip(double norm, double limit)
{
    if (limit == 0 || norm + 1e-6 <= limit)
        return 1;
    return (float)(limit / (norm + 1e-6));
}

EACH_MACHINE
bool gradients_are_finite(long n, const float *gradients)
{
    uint32_t exponents = 0; /* infinity or NaN (exponent all ones) sets bit 31 */
    for (long i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &gradients[i], sizeof bits);
        exponents |= (bits & 0x7f800000u) + 0x00800000u;
    }
    return exponents >> 31 == 0;
}
