#include "tests/testing.h"

#include "base/random.h"
#include "kernels/host/robust.h"
#include "tests/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 9, ELEMENTS = 40 };

/* --- hand calculations -------------------------------------------------------------------- */

START_TEST(a_trimmed_mean_drops_the_extremes_and_a_median_keeps_the_middle)
{
    static const float x[] = { /* five vectors of two elements */
                               1, -100, 2, 3, 5, 7, 9, INFINITY, 6, NAN
    };
    float out[2];
    robust_trimmed(2, 5, x, 2, 1, out);
    ck_assert(out[0] == 5);
    ck_assert(out[1] == 7);
    robust_trimmed(2, 5, x, 1, 2, out);
    ck_assert_double_eq_tol((double)out[0], 2 * (2 + 5 + 6) / 3.0, 1e-6);
    static const float even[] = { 4, 1, 100, 2 };
    robust_trimmed(1, 4, even, 1, 1, out);
    ck_assert(out[0] == 3);
}
END_TEST

/* Four points lie on a line at 0, 1, 3 and 50. Krum with f = 1 hostile rank scores each point by
 * its nearest neighbour. */
START_TEST(krum_picks_the_vector_with_the_nearest_neighbours)
{
    static const float x[] = { 0, 1, 3, 50, 1 };
    double squares[25], weights[5];
    robust_distances(1, 5, x, squares);
    ck_assert_double_eq(squares[3], 2500);
    ck_assert_double_eq(squares[2 * 5 + 1], 4);
    robust_krum(5, 1, squares, weights);
    ck_assert_double_eq(weights[1], 1);
    ck_assert_double_eq(weights[0] + weights[2] + weights[3] + weights[4], 0);
}
END_TEST

/* The geometric median of points on a line is their median, and that of the corners of an
 * equilateral triangle is the centre. If half of the vectors are equal, it equals them. */
START_TEST(a_geometric_median_minimises_the_sum_of_distances)
{
    static const float line[] = { 0, 1, 3, 50, 90 };
    static const float triangle[] = { 0, 0, 1, 0, 0.5F, 0.8660254F };
    double squares[25], weights[5];
    float out[2];
    robust_distances(1, 5, line, squares);
    robust_geometric_median(5, squares, weights);
    robust_weighted(1, 5, line, weights, 1, out);
    ck_assert_double_eq_tol((double)out[0], 3, 0.01);
    robust_distances(2, 3, triangle, squares);
    robust_geometric_median(3, squares, weights);
    robust_weighted(2, 3, triangle, weights, 2, out);
    ck_assert_double_eq_tol((double)out[0], 1, 1e-5);
    ck_assert_double_eq_tol((double)out[1], 0.57735F, 1e-5);
}
END_TEST

START_TEST(equal_vectors_are_their_own_median)
{
    static const float x[] = { 2, -1, 2, -1, 2, -1 };
    double squares[9], weights[3];
    float out[2];
    robust_distances(2, 3, x, squares);
    robust_geometric_median(3, squares, weights);
    robust_weighted(2, 3, x, weights, 3, out);
    ck_assert_double_eq_tol((double)out[0], 6, 1e-6);
    ck_assert_double_eq_tol((double)out[1], -3, 1e-6);
}
END_TEST

/* --- any values from hostile ranks -------------------------------------------------------- */

struct instance {
    int count, hostile;
    float x[MOST * ELEMENTS];
};

/* Draws vectors. The last `hostile` ones are far away in one direction, near the others, or NaN. */
static void draw_instance(struct random *rng, struct instance *out)
{
    out->count = 5 + random_below(rng, MOST - 4);
    out->hostile = random_below(rng, (out->count - 3) / 2 + 1);
    float spread = expf((float)(6 * random_unit(rng) - 3));
    float attack = expf((float)(12 * random_unit(rng) - 4));
    bool is_number = random_below(rng, 4) > 0;
    for (int r = 0; r < out->count; r++)
        for (int i = 0; i < ELEMENTS; i++) {
            float value = 1 + spread * ((float)random_unit(rng) - 0.5F);
            if (r >= out->count - out->hostile)
                value = is_number ? -attack * value : NAN;
            out->x[r * ELEMENTS + i] = value;
        }
}

static void honest_mean(const struct instance *in, double mean[ELEMENTS])
{
    int honest = in->count - in->hostile;
    memset(mean, 0, sizeof(double) * ELEMENTS);
    for (int r = 0; r < honest; r++)
        for (int i = 0; i < ELEMENTS; i++)
            mean[i] += (double)in->x[r * ELEMENTS + i] / honest;
}

static double square_from(const float *x, const double mean[ELEMENTS])
{
    double sum = 0;
    for (int i = 0; i < ELEMENTS; i++)
        sum += ((double)x[i] - mean[i]) * ((double)x[i] - mean[i]);
    return sum;
}

static double honest_variance(const struct instance *in, const double mean[ELEMENTS])
{
    double sum = 0;
    int honest = in->count - in->hostile;
    for (int r = 0; r < honest; r++)
        sum += square_from(in->x + r * ELEMENTS, mean) / honest;
    return sum;
}

static void apply_trimmed(const struct instance *in, float out[ELEMENTS])
{
    robust_trimmed(ELEMENTS, in->count, in->x, in->hostile, 1, out);
}

static void apply_median(const struct instance *in, float out[ELEMENTS])
{
    robust_trimmed(ELEMENTS, in->count, in->x, (in->count - 1) / 2, 1, out);
}

static void apply_krum(const struct instance *in, float out[ELEMENTS])
{
    double squares[MOST * MOST], weights[MOST];
    robust_distances(ELEMENTS, in->count, in->x, squares);
    robust_krum(in->count, in->hostile, squares, weights);
    robust_weighted(ELEMENTS, in->count, in->x, weights, 1, out);
}

static void apply_geomedian(const struct instance *in, float out[ELEMENTS])
{
    double squares[MOST * MOST], weights[MOST];
    robust_distances(ELEMENTS, in->count, in->x, squares);
    robust_geometric_median(in->count, squares, weights);
    robust_weighted(ELEMENTS, in->count, in->x, weights, 1, out);
}

/* The bounds of Allouah et al. 2023, table 1, for f hostile ranks of n, with r = f / (n - 2 f). */
static double trimmed_most(double r)
{
    return 6 * r * (1 + r);
}

static double median_most(double r)
{
    return 4 * (1 + r) * (1 + r);
}

static double krum_most(double r)
{
    return 6 * (1 + r);
}

static const struct {
    const char *name;
    void (*apply)(const struct instance *in, float out[ELEMENTS]);
    double (*most)(double r);
} rules[] = {
    { "median", apply_median, median_most },
    { "trimmed", apply_trimmed, trimmed_most },
    { "krum", apply_krum, krum_most },
    { "geomedian", apply_geomedian, median_most },
};

START_TEST(a_robust_rules_error_is_within_its_published_bound)
{
    struct random rng = random_new(told_seed(), (uint64_t)_i);
    struct instance in;
    double mean[ELEMENTS];
    float out[ELEMENTS];
    const double rounding = 1e-6;
    for (int trial = 0; trial < 300; trial++) {
        draw_instance(&rng, &in);
        honest_mean(&in, mean);
        rules[_i].apply(&in, out);
        double most = rules[_i].most((double)in.hostile / (in.count - 2 * in.hostile));
        double found = square_from(out, mean), variance = honest_variance(&in, mean);
        ck_assert_msg(found <= most * variance + rounding * ELEMENTS,
                      "%s, f = %d of %d: squared error %g, variance %g, largest allowed ratio %g",
                      rules[_i].name, in.hostile, in.count, found, variance, most);
    }
}
END_TEST

/* The sum of distances from a point to all vectors. At a geometric median no small step in any
 * direction reduces it. */
static double distances_from(const struct instance *in, const double at[ELEMENTS])
{
    double sum = 0;
    for (int r = 0; r < in->count; r++)
        sum += sqrt(square_from(in->x + r * ELEMENTS, at));
    return sum;
}

START_TEST(no_point_near_a_geometric_median_has_a_smaller_sum_of_distances)
{
    struct random rng = random_new(told_seed(), 11);
    struct instance in;
    float out[ELEMENTS];
    double at[ELEMENTS], beside[ELEMENTS];
    for (int trial = 0; trial < 50; trial++) {
        do
            draw_instance(&rng, &in);
        while (isnan(in.x[(in.count - 1) * ELEMENTS]));
        apply_geomedian(&in, out);
        for (int i = 0; i < ELEMENTS; i++)
            at[i] = (double)out[i];
        double least = distances_from(&in, at);
        for (int step = 0; step < 20; step++) {
            for (int i = 0; i < ELEMENTS; i++)
                beside[i] = at[i] + 0.05 * fabs(at[i]) * (random_unit(&rng) - 0.5);
            ck_assert_double_ge(distances_from(&in, beside), least * (1 - 1e-4));
        }
    }
}
END_TEST

/* --- hostile ranks ------------------------------------------------------------------------ */

START_TEST(a_hostile_rank_sends_values_of_its_kind)
{
    enum { MANY = 20000 };
    struct draw draw = { .seed = 3 };
    float flipped[] = { 1, -2 }, silent[] = { 1, -2 };
    float *noise = calloc(MANY, sizeof *noise);
    falsify(2, FALSITY_FLIP, 10, &draw, flipped);
    falsify(2, FALSITY_SILENCE, 10, &draw, silent);
    ck_assert(flipped[0] == -10);
    ck_assert(flipped[1] == 20);
    ck_assert(silent[0] == 0 && silent[1] == 0);
    for (int i = 0; i < MANY; i++)
        noise[i] = i % 2 ? 3 : -3;
    falsify(MANY, FALSITY_NOISE, 10, &draw, noise);
    double sum = 0, squares = 0;
    for (int i = 0; i < MANY; i++) {
        sum += (double)noise[i];
        squares += (double)noise[i] * (double)noise[i];
    }
    ck_assert_double_eq_tol(sum / MANY, 0, 1);
    ck_assert_double_eq_tol(sqrt(squares / MANY), 30, 0.6);
    free(noise);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("robust");
    tcase_add_test(tc, a_trimmed_mean_drops_the_extremes_and_a_median_keeps_the_middle);
    tcase_add_test(tc, krum_picks_the_vector_with_the_nearest_neighbours);
    tcase_add_test(tc, a_geometric_median_minimises_the_sum_of_distances);
    tcase_add_test(tc, equal_vectors_are_their_own_median);
    tcase_add_loop_test(tc, a_robust_rules_error_is_within_its_published_bound, 0, LENGTH(rules));
    tcase_add_test(tc, no_point_near_a_geometric_median_has_a_smaller_sum_of_distances);
    tcase_add_test(tc, a_hostile_rank_sends_values_of_its_kind);
    Suite *s = suite_create("kernels/host/robust");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
