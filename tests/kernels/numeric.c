#include "tests/kernels/numeric.h"

#include "tests/draw.h"
#include "tests/testing.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct numeric numeric_begin(uint64_t stream)
{
    uint64_t seed = fresh_seed();
    return (struct numeric){ .seed = seed, .random = random_new(seed, stream) };
}

void numeric_end(struct numeric *numeric)
{
    arena_release(&numeric->arena);
}

int numeric_blas(struct blas found[2])
{
    struct err err = { 0 };
    found[0] = own_blas;
    if (openblas_find(&found[1], &err))
        return 2;
    printf("%s: %s\n", err.where, err.msg);
    return 1;
}

float *numeric_zeros(struct numeric *numeric, long n)
{
    return ARENA_ARRAY(&numeric->arena, float, (size_t)n);
}

/* Draws a normally distributed number by the method of Box and Muller. The method gives two
 * numbers, of which the second is not used. */
static double normal(struct random *random)
{
    double radius = sqrt(-2 * log(1 - random_unit(random)));
    return radius * cos(6.283185307179586 * random_unit(random));
}

float *numeric_floats(struct numeric *numeric, long n, double deviation)
{
    float *x = numeric_zeros(numeric, n);
    for (long i = 0; i < n; i++)
        x[i] = (float)(deviation * normal(&numeric->random));
    return x;
}

float *numeric_copy(struct numeric *numeric, long n, const float *x)
{
    float *copy = numeric_zeros(numeric, n);
    memcpy(copy, x, sizeof *x * (size_t)n);
    return copy;
}

double *numeric_doubles(struct numeric *numeric, long n, const float *x)
{
    double *copy = ARENA_ARRAY(&numeric->arena, double, (size_t)n);
    for (long i = 0; i < n; i++)
        copy[i] = (double)x[i];
    return copy;
}

#define CHECK(is_true, numeric, format, ...)                                                      \
    do {                                                                                          \
        if (!(is_true))                                                                           \
            ck_abort_msg(format "; SEED=%llu", __VA_ARGS__, (unsigned long long)(numeric)->seed); \
    } while (0)

static double root_squares(long n, const double *x)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static double root_error(long n, const float *x, const double *reference)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += ((double)x[i] - reference[i]) * ((double)x[i] - reference[i]);
    return sqrt(sum);
}

static void check_row(const struct numeric *numeric, const struct numeric_result *result, long row,
                      double tolerance, double root_mean_square)
{
    double largest = root_mean_square, worst = 0;
    for (long i = row * result->width; i < (row + 1) * result->width; i++) {
        largest = fmax(largest, fabs(result->reference[i]));
        double error = fabs((double)result->got[i] - result->reference[i]);
        worst = error <= worst ? worst : error; /* the condition is also true for NaN */
    }
    CHECK(worst <= tolerance * largest, numeric,
          "%s: row %ld of %ld has an error of %g for values up to %g", result->what, row,
          result->rows, worst, largest);
}

void numeric_check(const struct numeric *numeric, const struct numeric_result *result,
                   double row_tolerance)
{
    long n = result->rows * result->width;
    double size = root_squares(n, result->reference);
    double error = root_error(n, result->got, result->reference);
    double plain_error = root_error(n, result->plain, result->reference);
    for (long row = 0; row < result->rows; row++)
        check_row(numeric, result, row, row_tolerance, size / sqrt((double)n));
    double slack = (double)FLT_EPSILON * (0.5 + 40 / sqrt((double)n));
    CHECK(error <= 1.5 * plain_error + slack * size, numeric,
          "%s: the error is %g, that of plain code %g, for values of %g (each the root of the sum "
          "of squares)",
          result->what, error, plain_error, size);
}

void numeric_check_same(const struct numeric *numeric, const char *what, long n, const float *got,
                        const float *expected)
{
    for (long i = 0; i < n; i++)
        CHECK(memcmp(&got[i], &expected[i], sizeof *got) == 0, numeric,
              "%s: value %ld of %ld is %a and not %a", what, i, n, (double)got[i],
              (double)expected[i]);
}

void numeric_check_near(const struct numeric *numeric, const char *what, long n, const float *got,
                        const float *expected, double tolerance)
{
    double squares = 0;
    for (long i = 0; i < n; i++)
        squares += (double)expected[i] * (double)expected[i];
    double allowed = tolerance * sqrt(squares / (double)n);
    for (long i = 0; i < n; i++)
        CHECK(fabs((double)got[i] - (double)expected[i]) <= allowed, numeric,
              "%s: value %ld of %ld is %g and not %g", what, i, n, (double)got[i],
              (double)expected[i]);
}

void numeric_check_gradient(const struct numeric *numeric, const char *what,
                            struct numeric_function function, long n, double *x,
                            const float *gradient, double tolerance)
{
    /* An absolute tolerance, because sums of values near one may cancel to almost 0. */
    const double roundings = 8 * (double)FLT_EPSILON;
    double *differences = malloc(sizeof *differences * (size_t)n);
    ck_assert_ptr_nonnull(differences);
    double largest = 0;
    for (long i = 0; i < n; i++) {
        double kept = x[i], step = 1e-5 * fmax(1, fabs(kept));
        x[i] = kept + step;
        double above = function.value(function.context);
        x[i] = kept - step;
        double below = function.value(function.context);
        x[i] = kept;
        differences[i] = (above - below) / (2 * step);
        largest = fmax(largest, fabs(differences[i]));
    }
    for (long i = 0; i < n; i++)
        CHECK(fabs((double)gradient[i] - differences[i]) <= tolerance * largest + roundings,
              numeric, "%s: gradient %ld of %ld is %g and not %g", what, i, n, (double)gradient[i],
              differences[i]);
    free(differences);
}

double numeric_weighted(long n, const float *weights, const double *values)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += (double)weights[i] * values[i];
    return sum;
}
