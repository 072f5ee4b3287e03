/* LayerNorm and RMSNorm on the CPU. */
#include "kernels/host/norm.h"

#include "kernels/host/vector.h"

#include <math.h>

EACH_MACHINE
void layer_norm_forward(const struct norm *norm, const float *x, const float *gamma,
                        const float *beta, float *y, float *mean, float *rstd)
{
    long width = norm->width;
    for (long row = 0; row < norm->rows; row++, x += width, y += width) {
        float center = row_sum(width, x) / (float)width;
        float variance = row_squares(width, x, center) / (float)width;
        float scale = 1 / sqrtf(variance + norm->epsilon);
        SAME_OR_APART
        for (long i = 0; i < width; i++)
            y[i] = (x[i] - center) * scale * gamma[i] + beta[i];
        mean[row] = center;
        rstd[row] = scale;
    }
}

/* With g = dy gamma and xhat = (x - mean) rstd: dx = rstd (g - mean(g) - xhat mean(g xhat)). */
EACH_MACHINE
void layer_norm_backward(const struct norm *norm, const float *dy, const float *x,
                         const float *gamma, const float *mean, const float *rstd, float *dx,
                         float *dgamma, float *dbeta)
{
    long width = norm->width;
    for (long row = 0; row < norm->rows; row++, x += width, dy += width, dx += width) {
        float center = mean[row], scale = rstd[row];
        float mean_g = row_dot(width, dy, gamma) / (float)width;
        float mean_g_xhat = row_covariance(width, dy, gamma, x, center) * scale / (float)width;
        SAME_OR_APART
        for (long i = 0; i < width; i++) {
            float xhat = (x[i] - center) * scale, d_i = dy[i];
            dgamma[i] += d_i * xhat;
            dbeta[i] += d_i;
            dx[i] = scale * (d_i * gamma[i] - mean_g - xhat * mean_g_xhat);
        }
    }
}

EACH_MACHINE
void rms_norm_forward(const struct norm *norm, const float *x, const float *gamma, float *y,
                      float *rstd)
{
    long width = norm->width;
    for (long row = 0; row < norm->rows; row++, x += width, y += width) {
        float mean_square = row_dot(width, x, x) / (float)width;
        float scale = 1 / sqrtf(mean_square + norm->epsilon);
        SAME_OR_APART
        for (long i = 0; i < width; i++)
            y[i] = x[i] * scale * gamma[i];
        rstd[row] = scale;
    }
}

/* RMSNorm, without the mean: dx = rstd (g - xhat mean(g xhat)). */
EACH_MACHINE
void rms_norm_backward(const struct norm *norm, const float *dy, const float *x, const float *gamma,
                       const float *rstd, float *dx, float *dgamma)
{
    long width = norm->width;
    for (long row = 0; row < norm->rows; row++, x += width, dy += width, dx += width) {
        float scale = rstd[row];
        float mean_g_xhat = row_covariance(width, dy, gamma, x, 0) * scale / (float)width;
        SAME_OR_APART
        for (long i = 0; i < width; i++) {
            float xhat = x[i] * scale, d_i = dy[i];
            dgamma[i] += d_i * xhat;
            dx[i] = scale * (d_i * gamma[i] - xhat * mean_g_xhat);
        }
    }
}
