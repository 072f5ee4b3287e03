/* calibration/fit/least_squares.h - robust nonlinear least squares with bounds.
 *
 * Minimises sum_i w_i s^2 rho(r_i(x)^2 / s^2) + sum_j p_j^2 (x_j - prior_j)^2, with rho(z) = 2
 * (sqrt(1 + z) - 1), "soft L1": residuals well above the scale s count by their size instead of
 * their square; above a cut-off they have no further effect. Every function is pure. */
#ifndef CALIBRATION_FIT_LEAST_SQUARES_H
#define CALIBRATION_FIT_LEAST_SQUARES_H

#include <stdbool.h>

struct least_squares {
    int num_parameters, num_residuals;
    const double *min, *max; /* bounds of parameters, finite; equal: the parameter is fixed */
    const double *prior;
    double prior_weight;  /* p, the same for all parameters */
    const double *weight; /* w of each residual; 0: left out */
    double scale;         /* s > 0 */
    double cutoff;        /* residuals above this count as this; HUGE_VAL: no cut-off */
    void (*residuals)(void *context, const double *x, double *out);
    void *context;
};

struct least_squares_end {
    double cost;
    int steps;
    bool converged; /* false: the limit of steps was reached */
};

/* Levenberg-Marquardt from `x`, which is first moved within the bounds; steps are clipped to the
 * bounds. */
struct least_squares_end least_squares_solve(const struct least_squares *problem, double *x);

/* Covariance of the parameters at x, row by row: the inverse of the weighted normal matrix, priors
 * included, times the mean weighted square of residuals. Zero for a parameter on a bound. */
void least_squares_covariance(const struct least_squares *problem, const double *x,
                              double *covariance);

#endif
