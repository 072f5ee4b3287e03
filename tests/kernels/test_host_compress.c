#include "kernels/host/combine.h"
#include "kernels/host/low_rank.h"
#include "kernels/host/optimizer.h"
#include "kernels/host/quantise.h"
#include "kernels/host/top_k.h"
#include "tests/kernels/numeric.h"
#include "tests/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct numeric numeric;

static void begin(void)
{
    numeric = numeric_begin(23);
}

static void end(void)
{
    numeric_end(&numeric);
}

static double squares(long n, const float *x)
{
    return gradient_squares(n, x);
}

static double distance_squares(long n, const float *x, const float *y)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sum;
}

/* --- quantisation ------------------------------------------------------------------------- */

static long num_buckets(const struct quantiser *q, long n)
{
    return (n + q->bucket - 1) / q->bucket;
}

/* Returns x after quantising and dequantising. */
static float *quantised(const struct quantiser *q, const struct draw *draw, uint64_t first, long n,
                        const float *x)
{
    float *norms = numeric_zeros(&numeric, num_buckets(q, n)), *out = numeric_zeros(&numeric, n);
    uint32_t *codes = ARENA_ARRAY(&numeric.arena, uint32_t, (size_t)(n * q->bits + 31) / 32);
    quantise(q, draw, first, n, x, norms, codes);
    dequantise_add(q, n, norms, codes, out);
    return out;
}

/* The vector (0.6, 0.8) has norm 1, so four levels are a quarter apart, and 0.6 lies between 0.5
 * and 0.75. It is rounded up in 0.4 of all draws, with a standard deviation of 0.25 sqrt(0.4 x 0.6)
 * per draw. */
START_TEST(quantised_0_6_is_one_of_two_levels_and_unbiased)
{
    const struct quantiser q = { .bits = 4, .levels = 4, .bucket = 2 };
    const struct draw draw = { .seed = 23 };
    long draws = TURNS(1000000), others = 0;
    double sum = 0;
    float *x = numeric_zeros(&numeric, 2 * draws);
    for (long i = 0; i < draws; i++) {
        x[2 * i] = 0.6F;
        x[2 * i + 1] = 0.8F;
    }
    float *got = quantised(&q, &draw, 0, 2 * draws, x);
    for (long i = 0; i < draws; i++) {
        double value = (double)got[2 * i];
        others += fabs(value - 0.5) > 1e-6 && fabs(value - 0.75) > 1e-6;
        sum += value;
    }
    ck_assert_int_eq(others, 0);
    double deviation = 0.25 * sqrt(0.4 * 0.6 / (double)draws);
    ck_assert_double_eq_tol(sum / (double)draws, 0.6, 4 * deviation);
}
END_TEST

static const struct quantiser quantisers[] = {
    { 2, 1, 64 }, { 3, 3, 100 }, { 4, 7, 512 }, { 7, 63, 33 }, { 8, 127, 512 }, { 16, 32767, 5000 }
};
enum { NUM_QUANTISERS = LENGTH(quantisers) };

/* The quantiser's rounding errors, summed over all elements and draws, have the mean 0; fp32's own
 * rounding is a thousandth of their standard deviation. The draws are fixed, as a few in a hundred
 * thousand random draws exceed four standard deviations. */
START_TEST(every_width_is_unbiased_to_four_deviations)
{
    const struct quantiser *q = &quantisers[_i];
    enum { N = 2000 };
    long draws = TURNS(500);
    double sum = 0, variance = 0;
    float *x = numeric_zeros(&numeric, N);
    draw_normal(&(struct draw){ .seed = 29 }, 1, 0, N, x);
    for (long i = 0; i < draws; i++) {
        const struct draw draw = { .seed = 23, .step = (uint32_t)i };
        struct arena_mark mark = arena_mark(&numeric.arena);
        float *got = quantised(q, &draw, 0, N, x);
        for (long j = 0; j < N; j++) {
            double off = (double)got[j] - (double)x[j];
            sum += off * (x[j] < 0 ? -1 : 1);
            variance += off * off;
        }
        arena_reset(&numeric.arena, mark);
    }
    ck_assert_double_le(fabs(sum), 4 * sqrt(variance) + 1e-3);
}
END_TEST

/* The bound is that of lemma 3.1 of the QSGD paper, applied to the mean of many draws. The bound is
 * loose, so the test needs no tolerance. */
START_TEST(the_variance_is_within_the_bound_of_the_paper)
{
    const struct quantiser *q = &quantisers[_i];
    double s = q->levels, d = (double)q->bucket, sum = 0;
    long n = q->bucket;
    enum { DRAWS = 50 };
    float *x = numeric_floats(&numeric, n, 1);
    for (uint32_t step = 0; step < DRAWS; step++) {
        const struct draw draw = { .seed = numeric.seed, .step = step };
        sum += distance_squares(n, quantised(q, &draw, 0, n, x), x);
    }
    ck_assert_double_le(sum / DRAWS, fmin(d / (s * s), sqrt(d) / s) * squares(n, x));
}
END_TEST

START_TEST(ranks_with_a_part_of_the_elements_draw_the_same)
{
    const struct quantiser q = { .bits = 5, .levels = 15, .bucket = 64 };
    const struct draw draw = { .seed = numeric.seed, .layer = 3 };
    float *x = numeric_floats(&numeric, 640, 1);
    float *whole = quantised(&q, &draw, 1000, 640, x);
    float *part = quantised(&q, &draw, 1000 + 128, 512, x + 128);
    numeric_check_same(&numeric, "elements from 128 on", 512, part, whole + 128);
}
END_TEST

START_TEST(zero_is_quantised_to_zero_and_nan_to_nan)
{
    const struct quantiser q = { .bits = 4, .levels = 7, .bucket = 8 };
    const struct draw draw = { .seed = 1 };
    float x[24] = { [8] = 1, [17] = INFINITY };
    float *got = quantised(&q, &draw, 0, 24, x);
    for (int i = 0; i < 8; i++)
        ck_assert(got[i] == 0);
    ck_assert(got[8] == 1);
    for (int i = 16; i < 24; i++)
        ck_assert(isnan(got[i]));
}
END_TEST

/* --- top-k -------------------------------------------------------------------------------- */

static int by_magnitude_then_place(const void *a, const void *b)
{
    const float *const *x = a, *const *y = b;
    if (fabsf(**x) != fabsf(**y))
        return fabsf(**x) > fabsf(**y) ? -1 : 1;
    return *x < *y ? -1 : *x > *y;
}

static int by_place(const void *a, const void *b)
{
    const float *const *x = a, *const *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* The k largest elements, found by sorting. */
static const float **sorted_top(long n, const float *x, long k)
{
    const float **at = arena_alloc(&numeric.arena, sizeof *at * (size_t)n);
    for (long i = 0; i < n; i++)
        at[i] = &x[i];
    qsort(at, (size_t)n, sizeof *at, by_magnitude_then_place);
    qsort(at, (size_t)k, sizeof *at, by_place);
    return at;
}

/* Random values, many of them equal, so that there are many ties. */
static float *coarse_floats(long n)
{
    float *x = numeric_floats(&numeric, n, 1);
    for (long i = 0; i < n; i++)
        x[i] = roundf(4 * x[i]) / 4;
    return x;
}

static bool takes_what_sorting_takes(long n, long k, const float *x)
{
    float *left = numeric_copy(&numeric, n, x), *values = numeric_zeros(&numeric, k + 1);
    uint32_t *indices = arena_alloc(&numeric.arena, sizeof *indices * (size_t)(k + 1));
    const float **expected = sorted_top(n, x, k);
    bool ok = true;
    top_k_take(n, left, k, indices, values);
    for (long i = 0; i < k; i++)
        ok = ok && indices[i] == expected[i] - x && values[i] == *expected[i] &&
             left[indices[i]] == 0;
    return ok;
}

START_TEST(top_k_takes_the_largest_and_the_first_of_ties)
{
    for (int turn = 0; turn < TURNS(400); turn++) {
        struct arena_mark mark = arena_mark(&numeric.arena);
        long n = 1 + random_below(&numeric.random, 300);
        long k = random_below(&numeric.random, (int)n + 1);
        const float *x = turn % 2 ? coarse_floats(n) : numeric_floats(&numeric, n, 1);
        ck_assert_msg(takes_what_sorting_takes(n, k, x),
                      "n %ld, k %ld: top-k chose other elements than sorting does; SEED=%llu", n, k,
                      (unsigned long long)numeric.seed);
        arena_reset(&numeric.arena, mark);
    }
}
END_TEST

START_TEST(the_top_k_error_is_within_its_bound_on_every_draw)
{
    for (int turn = 0; turn < TURNS(400); turn++) {
        struct arena_mark mark = arena_mark(&numeric.arena);
        long n = 1 + random_below(&numeric.random, 2000);
        long k = random_below(&numeric.random, (int)n + 1);
        float *x = turn % 2 ? coarse_floats(n) : numeric_floats(&numeric, n, 1);
        float *values = numeric_zeros(&numeric, n);
        uint32_t *indices = arena_alloc(&numeric.arena, sizeof *indices * (size_t)n);
        double all = squares(n, x);
        top_k_take(n, x, k, indices, values);
        ck_assert_double_le(squares(n, x), (1 - (double)k / (double)n) * all * (1 + 1e-12));
        arena_reset(&numeric.arena, mark);
    }
}
END_TEST

/* If all elements are equal, the error reaches its bound, (1 - k/n) |x|^2. */
START_TEST(equal_elements_reach_the_top_k_error_bound)
{
    float x[8] = { 1, -1, 1, 1, -1, 1, 1, 1 }, values[3];
    uint32_t indices[3];
    top_k_take(8, x, 3, indices, values);
    ck_assert_double_eq(squares(8, x), (1 - 3.0 / 8) * 8);
    ck_assert_uint_eq(indices[0], 0);
    ck_assert_uint_eq(indices[1], 1);
    ck_assert_uint_eq(indices[2], 2);
    ck_assert(values[1] == -1);
}
END_TEST

START_TEST(taken_and_remaining_elements_add_up)
{
    enum { N = 777, K = 77 };
    float *x = numeric_floats(&numeric, N, 1), *left = numeric_copy(&numeric, N, x);
    float values[K];
    uint32_t indices[K];
    top_k_take(N, left, K, indices, values);
    top_k_add(K, indices, values, N, left);
    numeric_check_same(&numeric, "sum", N, left, x);
}
END_TEST

START_TEST(an_index_past_the_end_is_ignored)
{
    float sum[2] = { 1, 2 };
    top_k_add(2, (uint32_t[]){ 2, UINT32_MAX }, (float[]){ 5, 5 }, 2, sum);
    ck_assert(sum[0] == 1 && sum[1] == 2);
}
END_TEST

/* --- low rank ----------------------------------------------------------------------------- */

enum { ROWS = 40, COLUMNS = 30 };

/* Makes a matrix of the given rank, as the product a [ROWS, rank] b [rank, COLUMNS]. */
static float *matrix_of_rank(long rank)
{
    float *a = numeric_floats(&numeric, ROWS * rank, 1);
    float *b = numeric_floats(&numeric, rank * COLUMNS, 1);
    float *m = numeric_zeros(&numeric, ROWS * COLUMNS);
    for (long i = 0; i < ROWS; i++)
        for (long j = 0; j < COLUMNS; j++)
            for (long r = 0; r < rank; r++)
                m[i * COLUMNS + j] += a[i * rank + r] * b[r * COLUMNS + j];
    return m;
}

/* One step of PowerSGD: q [COLUMNS, rank] is used and replaced; returns P Q^T. */
static float *power_step(const float *m, long rank, float *q)
{
    float *p = numeric_zeros(&numeric, ROWS * rank);
    float *stands_for = numeric_zeros(&numeric, ROWS * COLUMNS);
    for (long i = 0; i < ROWS; i++)
        for (long r = 0; r < rank; r++)
            for (long j = 0; j < COLUMNS; j++)
                p[i * rank + r] += m[i * COLUMNS + j] * q[j * rank + r];
    orthogonalise(ROWS, rank, p);
    memset(q, 0, sizeof *q * (size_t)(COLUMNS * rank));
    for (long i = 0; i < ROWS; i++)
        for (long j = 0; j < COLUMNS; j++)
            for (long r = 0; r < rank; r++)
                q[j * rank + r] += m[i * COLUMNS + j] * p[i * rank + r];
    for (long i = 0; i < ROWS; i++)
        for (long j = 0; j < COLUMNS; j++)
            for (long r = 0; r < rank; r++)
                stands_for[i * COLUMNS + j] += p[i * rank + r] * q[j * rank + r];
    return stands_for;
}

/* Largest deviation of P^T P from the identity, except for zero columns. */
static double worst_product(long rows, long rank, const float *p, long whole)
{
    double worst = 0;
    for (long a = 0; a < rank; a++)
        for (long b = 0; b < rank; b++) {
            double sum = 0;
            for (long i = 0; i < rows; i++)
                sum += (double)p[i * rank + a] * (double)p[i * rank + b];
            worst = fmax(worst, fabs(sum - (a == b && a < whole)));
        }
    return worst;
}

START_TEST(columns_become_orthonormal)
{
    float *p = numeric_floats(&numeric, 200 * 6, 3);
    orthogonalise(200, 6, p);
    ck_assert_double_le(worst_product(200, 6, p, 6), 1e-6);
}
END_TEST

START_TEST(a_column_that_depends_on_others_becomes_zero)
{
    float *p = numeric_floats(&numeric, 50 * 3, 1);
    for (long i = 0; i < 50; i++)
        p[i * 3 + 2] = 2 * p[i * 3] - p[i * 3 + 1];
    orthogonalise(50, 3, p);
    ck_assert_double_le(worst_product(50, 3, p, 2), 1e-6);
    float *nothing = numeric_zeros(&numeric, 50 * 3);
    orthogonalise(50, 3, nothing);
    ck_assert_double_eq(squares(150, nothing), 0);
}
END_TEST

/* Tests the result of the second step of PowerSGD, for which the first step has turned q towards
 * the rows of the matrix. A random q would not do: in one of a hundred draws its columns are so
 * nearly linearly dependent that fp32 loses three digits. */
START_TEST(a_matrix_of_rank_r_is_reproduced_exactly)
{
    for (long rank = 1; rank <= 4; rank++) {
        float *m = matrix_of_rank(rank);
        float *q = numeric_floats(&numeric, COLUMNS * rank, 1);
        power_step(m, rank, q);
        float *back = power_step(m, rank, q);
        ck_assert_double_le(distance_squares(ROWS * COLUMNS, back, m),
                            1e-9 * squares(ROWS * COLUMNS, m));
    }
}
END_TEST

/* The norm of a projection's error never exceeds that of the matrix. With warm starts it falls
 * towards the error of the best matrix of this rank, which is the minimum. */
START_TEST(warm_starts_lower_the_error_with_every_step)
{
    enum { RANK = 2, STEPS = 12 };
    float *m = matrix_of_rank(2), *noise = numeric_floats(&numeric, ROWS * COLUMNS, 0.5);
    float *q = numeric_floats(&numeric, COLUMNS * RANK, 1);
    combine(ROWS * COLUMNS, 1, m, 1, noise, m);
    double before = squares(ROWS * COLUMNS, m);
    for (int step = 0; step < STEPS; step++) {
        double error = distance_squares(ROWS * COLUMNS, power_step(m, RANK, q), m);
        ck_assert_double_le(error, before * (1 + 1e-6));
        before = error;
    }
    ck_assert_double_le(before, squares(ROWS * COLUMNS, noise));
}
END_TEST

START_TEST(arrays_are_combined_in_place_and_out_of_place)
{
    float x[] = { 1, 2, 3 }, y[] = { 1, 0, 1 }, out[3];
    combine(3, 1, x, 1, y, out);
    ck_assert(out[0] == 2 && out[1] == 2 && out[2] == 4);
    combine(3, 0.5F, x, 2, y, x);
    ck_assert(x[0] == 2.5F && x[1] == 1 && x[2] == 3.5F);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("compress");
    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, quantised_0_6_is_one_of_two_levels_and_unbiased);
    tcase_add_loop_test(tc, every_width_is_unbiased_to_four_deviations, 0, NUM_QUANTISERS);
    tcase_add_loop_test(tc, the_variance_is_within_the_bound_of_the_paper, 0, NUM_QUANTISERS);
    tcase_add_test(tc, ranks_with_a_part_of_the_elements_draw_the_same);
    tcase_add_test(tc, zero_is_quantised_to_zero_and_nan_to_nan);
    tcase_add_test(tc, top_k_takes_the_largest_and_the_first_of_ties);
    tcase_add_test(tc, the_top_k_error_is_within_its_bound_on_every_draw);
    tcase_add_test(tc, equal_elements_reach_the_top_k_error_bound);
    tcase_add_test(tc, taken_and_remaining_elements_add_up);
    tcase_add_test(tc, an_index_past_the_end_is_ignored);
    tcase_add_test(tc, columns_become_orthonormal);
    tcase_add_test(tc, a_column_that_depends_on_others_becomes_zero);
    tcase_add_test(tc, a_matrix_of_rank_r_is_reproduced_exactly);
    tcase_add_test(tc, warm_starts_lower_the_error_with_every_step);
    tcase_add_test(tc, arrays_are_combined_in_place_and_out_of_place);
    Suite *s = suite_create("kernels/host/compress");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
