/* tests/kernels/numeric.h - random test arrays, and comparisons of an fp32 result with a reference
 * in double.
 *
 * Each run has a new seed. A failure prints the seed, and SEED=n in the environment repeats it.
 * Arrays are in the arena of struct numeric. */
#ifndef TESTS_KERNELS_NUMERIC_H
#define TESTS_KERNELS_NUMERIC_H

#include "base/arena.h"
#include "base/random.h"
#include "kernels/host/blas.h"

#include <stdint.h>

struct numeric {
    struct arena arena;
    struct random random;
    uint64_t seed;
};

/* The random data of this process; `stream` differs between tests. numeric_end frees the arrays. */
struct numeric numeric_begin(uint64_t stream);
void numeric_end(struct numeric *numeric);

/* Lists the implementations of matrix products that this machine has; returns their number. */
int numeric_blas(struct blas found[2]);

float *numeric_floats(struct numeric *numeric, long n, double deviation); /* normally distributed */
float *numeric_zeros(struct numeric *numeric, long n);
float *numeric_copy(struct numeric *numeric, long n, const float *x);
double *numeric_doubles(struct numeric *numeric, long n, const float *x); /* a copy */

/* A result, its reference in double, and the result of simple fp32 code (the plain code) for the
 * same inputs. */
struct numeric_result {
    const char *what;
    long rows, width;
    const float *got;
    const double *reference;
    const float *plain;
};

/* Checks two bounds. The root of the summed squared errors is at most 1.5 times the plain code's,
 * plus half an ulp (more for few values, where chance matters). No value is off by more than
 * `row_tolerance` times the largest of its row, or times the root mean square of all. */
void numeric_check(const struct numeric *numeric, const struct numeric_result *result,
                   double row_tolerance);

/* Fails unless the n floats have the same bits. */
void numeric_check_same(const struct numeric *numeric, const char *what, long n, const float *got,
                        const float *expected);
/* Fails unless each value is within `tolerance` times the root mean square of `expected`. */
void numeric_check_near(const struct numeric *numeric, const char *what, long n, const float *got,
                        const float *expected, double tolerance);

/* A scalar function of arrays in double, one of which is varied. */
struct numeric_function {
    double (*value)(const void *context);
    const void *context;
};

/* Checks that gradient[n] is the derivative of the value with respect to x[n], which value() reads.
 * It uses central differences and a tolerance relative to the largest derivative. x is restored
 * afterwards. */
void numeric_check_gradient(const struct numeric *numeric, const char *what,
                            struct numeric_function function, long n, double *x,
                            const float *gradient, double tolerance);

/* Returns the sum of weights times values. As a scalar function of an op's results, it has
 * gradients that can be tested. */
double numeric_weighted(long n, const float *weights, const double *values);

#endif
