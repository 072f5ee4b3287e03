/* tests/kernels/numeric.h - fresh random arrays, and how far a result in fp32 is from one in
 * double.
 *
 * Seeds are new in each run; a failure names its seed, and SEED=n in the environment brings it
 * back. Arrays live in the arena that is passed. */
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

/* Every way to multiply that this machine has; returns how many. */
int numeric_blas(struct blas found[2]);

float *numeric_floats(struct numeric *numeric, long n, double deviation); /* normal */
float *numeric_zeros(struct numeric *numeric, long n);
float *numeric_copy(struct numeric *numeric, long n, const float *x);
double *numeric_doubles(struct numeric *numeric, long n, const float *x); /* a copy */

/* A result, its reference in double, and the result of plain fp32 code on the same inputs. */
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
/* Fails unless each is within `tolerance` times the root mean square of `expected`. */
void numeric_check_near(const struct numeric *numeric, const char *what, long n, const float *got,
                        const float *expected, double tolerance);

/* A scalar function of arrays in double, one of which is varied. */
struct numeric_function {
    double (*value)(const void *context);
    const void *context;
};

/* gradient[n] is the derivative of the value by x[n], which value() reads: central differences,
 * each within `tolerance` of the largest of them. x is restored afterwards. */
void numeric_check_gradient(const struct numeric *numeric, const char *what,
                            struct numeric_function function, long n, double *x,
                            const float *gradient, double tolerance);

/* Sum of weights times values: the scalar that gradients are taken of. */
double numeric_weighted(long n, const float *weights, const double *values);

#endif
