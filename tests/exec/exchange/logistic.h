/* tests/exec/exchange/logistic.h - a convex problem whose optimum is known: logistic regression
 * whose samples are distributed over ranks with different data.
 *
 * f(x) = mean over ranks of f_i, f_i(x) = mean over i's samples of log(1 + exp(-y a.x)) + decay
 * |x|^2 / 2. Each rank's samples are drawn around a different true vector, so ranks' gradients are
 * not 0 at the optimum of their mean. */
#ifndef TESTS_EXEC_EXCHANGE_LOGISTIC_H
#define TESTS_EXEC_EXCHANGE_LOGISTIC_H

#include "base/arena.h"
#include "base/random.h"

#include <stdint.h>

struct logistic {
    int num_ranks, samples, features; /* samples of each rank */
    double decay;
    float *rows, *labels; /* [rank x samples + sample] x features, labels: 1 or -1 */
    double *optimum;      /* minimum by Newton's method: the gradient is 0 up to rounding */
    double least;         /* f at the optimum */
};

/* `difference` is the distance of ranks' true vectors from their mean, which has length 1. Memory
 * is in the arena. */
struct logistic logistic_new(int num_ranks, int samples, int features, double difference,
                             uint64_t seed, struct arena *arena);

double logistic_loss(const struct logistic *problem, const double *x);
double logistic_loss_of_floats(const struct logistic *problem, const float *x);
/* The gradient of f_i. */
void logistic_gradient(const struct logistic *problem, int rank, const float *x, float *gradient);
/* The gradient of f_i on randomly drawn samples, with repetition. */
void logistic_drawn_gradient(const struct logistic *problem, int rank, const float *x, int batch,
                             struct random *rng, float *gradient);
/* The norm of f's gradient at x. */
double logistic_slope(const struct logistic *problem, const double *x);

#endif
