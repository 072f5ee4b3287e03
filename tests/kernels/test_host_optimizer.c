#include "kernels/host/loss_scale.h"
#include "kernels/host/optimizer.h"
#include "tests/kernels/numeric.h"
#include "tests/testing.h"

#include <float.h>
#include <math.h>
#include <string.h>

static struct numeric numeric;

static void begin(void)
{
    numeric = numeric_begin(6);
}

static void end(void)
{
    numeric_end(&numeric);
}

enum { N = 1037, STEPS = 5 };

/* The arrays of an optimizer in fp32 and double. */
struct state {
    float *gradients, *weights, *first, *second;
    double *weights64, first64[N], second64[N];
};

static void begin_state(struct state *state)
{
    *state = (struct state){ .gradients = NULL };
    state->weights = numeric_floats(&numeric, N, 1);
    state->weights64 = numeric_doubles(&numeric, N, state->weights);
    state->first = numeric_zeros(&numeric, N);
    state->second = numeric_zeros(&numeric, N);
}

static void check_weights(const struct state *state)
{
    for (long i = 0; i < N; i++) {
        double expected = state->weights64[i];
        double allowed = 2e-6 * fmax(1, fabs(expected));
        ck_assert_msg(fabs((double)state->weights[i] - expected) <= allowed,
                      "weight %ld is %.9g and not %.9g; SEED=%llu", i, (double)state->weights[i],
                      expected, (unsigned long long)numeric.seed);
    }
}

START_TEST(sgd_equals_its_formula)
{
    const struct sgd sgd = { .rate = 0.1F, .decay = 0.01F, .gradient_scale = 0.5F };
    static struct state s;
    begin_state(&s);
    for (int step = 0; step < STEPS; step++) {
        s.gradients = numeric_floats(&numeric, N, 1);
        sgd_update(&sgd, N, s.gradients, s.weights);
        for (long i = 0; i < N; i++)
            s.weights64[i] -= 0.1 * (0.5 * (double)s.gradients[i] + 0.01 * s.weights64[i]);
    }
    check_weights(&s);
}
END_TEST

START_TEST(momentum_equals_its_formula)
{
    const struct momentum momentum = { 0.1F, 0.01F, 0.5F, 0.9F };
    static struct state s;
    begin_state(&s);
    for (int step = 0; step < STEPS; step++) {
        s.gradients = numeric_floats(&numeric, N, 1);
        momentum_update(&momentum, N, s.gradients, s.first, s.weights);
        for (long i = 0; i < N; i++) {
            double gradient = 0.5 * (double)s.gradients[i] + 0.01 * s.weights64[i];
            s.first64[i] = 0.9 * s.first64[i] + gradient;
            s.weights64[i] -= 0.1 * s.first64[i];
        }
    }
    check_weights(&s);
}
END_TEST

START_TEST(adamw_equals_its_formula)
{
    struct adamw adamw = { 1e-2F, 0.1F, 0.25F, 0.9F, 0.95F, 1e-8F, 0 };
    static struct state s;
    begin_state(&s);
    for (adamw.step = 1; adamw.step <= STEPS; adamw.step++) {
        s.gradients = numeric_floats(&numeric, N, 1);
        adamw_update(&adamw, N, s.gradients, s.first, s.second, s.weights);
        for (long i = 0; i < N; i++) {
            double gradient = 0.25 * (double)s.gradients[i];
            s.first64[i] = 0.9 * s.first64[i] + 0.1 * gradient;
            s.second64[i] = 0.95 * s.second64[i] + 0.05 * gradient * gradient;
            double first = s.first64[i] / (1 - pow(0.9, (double)adamw.step));
            double second = s.second64[i] / (1 - pow(0.95, (double)adamw.step));
            s.weights64[i] -= 1e-2 * (first / (sqrt(second) + 1e-8) + 0.1 * s.weights64[i]);
        }
    }
    check_weights(&s);
}
END_TEST

/* After one gradient, the corrected moments are the gradient and its square. */
START_TEST(the_first_step_of_adamw_is_rate_times_sign_of_the_gradient)
{
    const struct adamw adamw = { 1e-3F, 0, 1, 0.9F, 0.999F, 0, 1 };
    const float gradients[3] = { 1e-6F, -20, 0.3F };
    float first[3] = { 0 }, second[3] = { 0 }, weights[3] = { 1, 1, 1 };
    adamw_update(&adamw, 3, gradients, first, second, weights);
    ck_assert_double_eq_tol((double)weights[0], 1 - 1e-3, 1e-6);
    ck_assert_double_eq_tol((double)weights[1], 1 + 1e-3, 1e-6);
    ck_assert_double_eq_tol((double)weights[2], 1 - 1e-3, 1e-6);
}
END_TEST

/* ZeRO updates shards; the result must not depend on where shards end. */
START_TEST(shards_are_updated_like_the_whole)
{
    const struct adamw adamw = { 1e-2F, 0.1F, 1, 0.9F, 0.95F, 1e-8F, 3 };
    static struct state whole, parts;
    begin_state(&whole);
    whole.gradients = numeric_floats(&numeric, N, 1);
    parts = whole;
    parts.weights = numeric_copy(&numeric, N, whole.weights);
    parts.first = numeric_zeros(&numeric, N);
    parts.second = numeric_zeros(&numeric, N);
    adamw_update(&adamw, N, whole.gradients, whole.first, whole.second, whole.weights);
    for (long at = 0, n; at < N; at += n) {
        n = at + 259 < N ? 259 : N - at;
        adamw_update(&adamw, n, parts.gradients + at, parts.first + at, parts.second + at,
                     parts.weights + at);
    }
    numeric_check_same(&numeric, "weights", N, parts.weights, whole.weights);
    numeric_check_same(&numeric, "first moments", N, parts.first, whole.first);
    numeric_check_same(&numeric, "second moments", N, parts.second, whole.second);
}
END_TEST

START_TEST(squares_are_added_in_double)
{
    float *x = numeric_floats(&numeric, N, 1);
    double sum = 0;
    for (long i = 0; i < N; i++) {
        x[i] *= 1e25F; /* the squares of these values overflow a float */
        sum += (double)x[i] * (double)x[i];
    }
    ck_assert_double_eq_tol(gradient_squares(N, x) / sum, 1, 1e-13);
    ck_assert(gradient_squares(N, x) == gradient_squares(N, x));
    ck_assert(gradient_squares(0, x) == 0);
    x[3] = NAN;
    ck_assert(isnan(gradient_squares(N, x)));
}
END_TEST

START_TEST(clipping_scales_a_norm_to_the_limit_and_leaves_smaller_ones)
{
    ck_assert_double_eq_tol((double)gradient_clip(10, 1), 0.1, 1e-7);
    ck_assert(gradient_clip(0.5, 1) == 1);
    ck_assert(gradient_clip(0, 1) == 1);
    ck_assert(gradient_clip(1e9, 0) == 1);
}
END_TEST

START_TEST(one_infinity_or_nan_anywhere_is_detected)
{
    static const float bad[] = { INFINITY, -INFINITY, NAN };
    float *x = numeric_floats(&numeric, N, 1);
    x[5] = FLT_MAX, x[6] = -FLT_MAX, x[7] = FLT_MIN / 4, x[8] = 0;
    ck_assert(gradients_are_finite(N, x));
    for (int kind = 0; kind < 3; kind++)
        for (long i = 0; i < N; i += i < 40 || i > N - 40 ? 1 : 97) {
            float kept = x[i];
            x[i] = bad[kind];
            ck_assert(!gradients_are_finite(N, x));
            x[i] = kept;
        }
    ck_assert(gradients_are_finite(N, x));
}
END_TEST

/* --- loss scale ------------------------------------------------------------------------------- */

START_TEST(an_overflow_halves_the_loss_scale_down_to_its_minimum)
{
    struct loss_scale scale = loss_scale_new();
    for (double expected = 32768; expected >= 1; expected /= 2) {
        ck_assert(loss_scale_update(&scale, false));
        ck_assert_double_eq(scale.scale, expected);
    }
    ck_assert(!loss_scale_update(&scale, false));
    ck_assert_double_eq(scale.scale, 1);
}
END_TEST

START_TEST(the_loss_scale_doubles_after_enough_finite_steps_up_to_its_maximum)
{
    struct loss_scale scale = { .scale = 8, .growth_steps = 3, .minimum = 1, .maximum = 16 };
    static const struct {
        bool is_finite;
        double scale;
    } steps[] = {
        { true, 8 }, { true, 8 }, { false, 4 }, { true, 4 },  { true, 4 },  { true, 8 },
        { true, 8 }, { true, 8 }, { true, 16 }, { true, 16 }, { true, 16 }, { true, 16 },
    };
    for (size_t i = 0; i < LENGTH(steps); i++) {
        ck_assert(loss_scale_update(&scale, steps[i].is_finite));
        ck_assert_double_eq(scale.scale, steps[i].scale);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("host_optimizer");
    TCase *tests = tcase_create("host_optimizer");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, sgd_equals_its_formula);
    tcase_add_test(tests, momentum_equals_its_formula);
    tcase_add_test(tests, adamw_equals_its_formula);
    tcase_add_test(tests, the_first_step_of_adamw_is_rate_times_sign_of_the_gradient);
    tcase_add_test(tests, shards_are_updated_like_the_whole);
    tcase_add_test(tests, squares_are_added_in_double);
    tcase_add_test(tests, clipping_scales_a_norm_to_the_limit_and_leaves_smaller_ones);
    tcase_add_test(tests, one_infinity_or_nan_anywhere_is_detected);
    tcase_add_test(tests, an_overflow_halves_the_loss_scale_down_to_its_minimum);
    tcase_add_test(tests, the_loss_scale_doubles_after_enough_finite_steps_up_to_its_maximum);
    suite_add_tcase(s, tests);
    return s;
}

TEST_MAIN(suite)
