#include "kernels/host/activation.h"
#include "kernels/host/residual.h"
#include "kernels/host/rotary.h"
#include "tests/kernels/numeric.h"
#include "tests/kernels/reference.h"
#include "tests/testing.h"

#include <string.h>

static struct numeric numeric;

static void begin(void)
{
    numeric = numeric_begin(4);
}

static void end(void)
{
    numeric_end(&numeric);
}

/* --- activation ------------------------------------------------------------------------------- */

/* Plain functions of one value and their derivatives, by kind. */
static const struct {
    double (*value)(double);
    double (*slope)(double);
    float (*value32)(float);
    float (*slope32)(float);
    bool is_gated;
} functions[] = {
    [ACTIVATION_GELU] = { gelu_f64, gelu_slope_f64, gelu_f32, gelu_slope_f32, false },
    [ACTIVATION_RELU] = { relu_f64, relu_slope_f64, relu_f32, relu_slope_f32, false },
    [ACTIVATION_SWIGLU] = { silu_f64, silu_slope_f64, silu_f32, silu_slope_f32, true },
    [ACTIVATION_GEGLU] = { gelu_f64, gelu_slope_f64, gelu_f32, gelu_slope_f32, true },
    [ACTIVATION_RELU2] = { relu2_f64, relu2_slope_f64, relu2_f32, relu2_slope_f32, false },
};
enum { NUM_KINDS = LENGTH(functions) };

/* One activation of n outputs. `inputs` is the number of values per row; `bias` has as many. */
struct activation_case {
    struct activation_shape shape;
    long n, inputs;
    float *x, *bias, *dy;
    double *x64, *bias64;
};

static struct activation_case activation_case(int kind, long rows, long width, double deviation)
{
    struct activation_case c = { .shape = { (enum activation_kind)kind, rows, width },
                                 .n = rows * width };
    c.inputs = activation_inputs(&c.shape);
    c.x = numeric_floats(&numeric, rows * c.inputs, deviation);
    c.bias = numeric_floats(&numeric, c.inputs, 1);
    c.dy = numeric_floats(&numeric, c.n, 1);
    c.x64 = numeric_doubles(&numeric, rows * c.inputs, c.x);
    c.bias64 = numeric_doubles(&numeric, c.inputs, c.bias);
    return c;
}

static double input_at(const struct activation_case *c, long i)
{
    return c->x64[i] + c->bias64[i % c->inputs];
}

static double output_at(const struct activation_case *c, long i)
{
    double (*value)(double) = functions[c->shape.kind].value;
    if (functions[c->shape.kind].is_gated)
        return value(input_at(c, 2 * i)) * input_at(c, 2 * i + 1);
    return value(input_at(c, i));
}

static float plain_output_at(const struct activation_case *c, long i)
{
    float (*value)(float) = functions[c->shape.kind].value32;
    if (!functions[c->shape.kind].is_gated)
        return value(c->x[i] + c->bias[i % c->inputs]);
    long gate = 2 * i, up = 2 * i + 1;
    return value(c->x[gate] + c->bias[gate % c->inputs]) * (c->x[up] + c->bias[up % c->inputs]);
}

static double activation_value(const void *context)
{
    const struct activation_case *c = context;
    double sum = 0;
    for (long i = 0; i < c->n; i++)
        sum += (double)c->dy[i] * output_at(c, i);
    return sum;
}

START_TEST(activations_are_as_accurate_as_plain_code)
{
    struct activation_case c = activation_case(_i, 5, 777, 3);
    double *y64 = ARENA_ARRAY(&numeric.arena, double, (size_t)c.n);
    float *y = numeric_zeros(&numeric, c.n), *plain = numeric_zeros(&numeric, c.n);
    activation_forward(&c.shape, c.x, c.bias, y);
    for (long i = 0; i < c.n; i++) {
        y64[i] = output_at(&c, i);
        plain[i] = plain_output_at(&c, i);
    }
    numeric_check(&numeric, &(struct numeric_result){ "y", 5, 777, y, y64, plain }, 1e-6);
}
END_TEST

START_TEST(derivatives_of_activations_are_as_accurate_as_plain_code)
{
    struct activation_case c = activation_case(_i, 1, 4001, 3);
    double *dx64 = ARENA_ARRAY(&numeric.arena, double, (size_t)c.inputs);
    float *dx = numeric_zeros(&numeric, c.inputs), *plain = numeric_zeros(&numeric, c.inputs);
    bool is_gated = functions[_i].is_gated;
    memset(c.bias, 0, sizeof *c.bias * (size_t)c.inputs);
    activation_backward(&c.shape, c.dy, c.x, c.bias, dx);
    for (long i = 0; i < c.n; i++) {
        long gate = is_gated ? 2 * i : i;
        float up = is_gated ? c.x[gate + 1] : 1;
        dx64[gate] = (double)c.dy[i] * (double)up * functions[_i].slope(c.x64[gate]);
        plain[gate] = c.dy[i] * up * functions[_i].slope32(c.x[gate]);
        if (is_gated) {
            dx64[gate + 1] = (double)c.dy[i] * functions[_i].value(c.x64[gate]);
            plain[gate + 1] = c.dy[i] * functions[_i].value32(c.x[gate]);
        }
    }
    numeric_check(&numeric, &(struct numeric_result){ "dx", 1, c.inputs, dx, dx64, plain }, 1e-6);
}
END_TEST

/* relu has no derivative at 0; no input is close to 0. */
START_TEST(gradients_of_activations_equal_finite_differences)
{
    struct activation_case c = activation_case(_i, 3, 17, 1);
    long n = 3 * c.inputs;
    float *dx = numeric_zeros(&numeric, n), *dbias = numeric_zeros(&numeric, c.inputs);
    for (long i = 0; i < n; i++)
        if (fabs(input_at(&c, i)) < 1e-3)
            c.x64[i] = (double)(c.x[i] += 0.25F);
    struct numeric_function value = { activation_value, &c };
    activation_backward(&c.shape, c.dy, c.x, c.bias, dx);
    for (long i = 0; i < n; i++)
        dbias[i % c.inputs] += dx[i];
    numeric_check_gradient(&numeric, "dx", value, n, c.x64, dx, 1e-5);
    numeric_check_gradient(&numeric, "dbias", value, c.inputs, c.bias64, dbias, 1e-5);
}
END_TEST

START_TEST(activations_work_in_place_and_without_bias)
{
    struct activation_case c = activation_case(_i, 3, 300, 1);
    long inputs = 3 * c.inputs;
    float *zeros = numeric_zeros(&numeric, c.inputs), *y = numeric_zeros(&numeric, c.n);
    float *expected = numeric_zeros(&numeric, c.n), *dx = numeric_zeros(&numeric, inputs);
    activation_forward(&c.shape, c.x, zeros, expected);
    activation_forward(&c.shape, c.x, NULL, y);
    numeric_check_same(&numeric, "y without bias", c.n, y, expected);
    activation_backward(&c.shape, c.dy, c.x, c.bias, dx);
    float *in_place = numeric_copy(&numeric, inputs, c.x);
    activation_backward(&c.shape, c.dy, in_place, c.bias, in_place);
    numeric_check_same(&numeric, "dx in place", inputs, in_place, dx);
    if (functions[_i].is_gated)
        return;
    in_place = numeric_copy(&numeric, inputs, c.x);
    activation_forward(&c.shape, in_place, NULL, in_place);
    numeric_check_same(&numeric, "y in place", c.n, in_place, expected);
}
END_TEST

START_TEST(activations_of_large_values_are_finite_and_of_nan_are_nan)
{
    struct activation_shape shape = { (enum activation_kind)_i, 1, 5 };
    float x[10] = { -1e4F, 1, 1e4F, 1, -40, 1, 0, 1, NAN, 1 }, y[5], dx[10];
    const float ones[5] = { 1, 1, 1, 1, 1 };
    if (!functions[_i].is_gated)
        for (int i = 0; i < 5; i++)
            x[i] = x[2 * i];
    activation_forward(&shape, x, NULL, y);
    activation_backward(&shape, ones, x, NULL, dx);
    for (int i = 0; i < 4; i++)
        ck_assert(isfinite(y[i]) && isfinite(dx[i]));
    ck_assert(fabsf(y[0]) < 1e-20F && y[1] == (_i == ACTIVATION_RELU2 ? 1e8F : 1e4F) && y[3] == 0);
    ck_assert(isnan(y[4]) || _i == ACTIVATION_RELU || _i == ACTIVATION_RELU2);
}
END_TEST

/* --- rotary ----------------------------------------------------------------------------------- */

static const struct attention heads = {
    .sequences = 2, .seq = 5, .heads = 6, .kv_heads = 2, .head_dim = 6
};
enum { GROUP = 5, VALUE_PART = 4, HEAD_DIM = 6, HALF = 3, QKV = 2 * 5 * 2 * GROUP * HEAD_DIM };

/* Head by head as in transformers' modeling_llama.py: x cos + rotate_half(x) sin. */
START_TEST(rotary_rotates_queries_and_keys_but_not_values)
{
    float rope_cos_sin[5 * HEAD_DIM];
    float *qkv = numeric_floats(&numeric, QKV, 1), *x = numeric_copy(&numeric, QKV, qkv);
    rotary_table(5, HEAD_DIM, 1e4, rope_cos_sin);
    rotary_forward(&heads, rope_cos_sin, qkv);
    for (long i = 0; i < QKV; i++) {
        long head = i / HEAD_DIM, d = i % HEAD_DIM, position = head / GROUP / 2 % 5;
        double angle = (double)position * pow(1e4, -2 * (double)(d % HALF) / HEAD_DIM);
        double turned = d < HALF ? -(double)x[i + HALF] : (double)x[i - HALF];
        double expected = (double)x[i] * cos(angle) + turned * sin(angle);
        if (head % GROUP == VALUE_PART)
            expected = (double)x[i];
        ck_assert_double_le(fabs((double)qkv[i] - expected), 1e-6);
    }
}
END_TEST

/* A rotation's transpose: x . R^T dy = R x . dy for all x and dy. */
START_TEST(the_backward_of_a_rotation_is_its_transpose)
{
    float rope_cos_sin[5 * HEAD_DIM];
    float *x = numeric_floats(&numeric, QKV, 1), *dy = numeric_floats(&numeric, QKV, 1);
    float *y = numeric_copy(&numeric, QKV, x), *dx = numeric_copy(&numeric, QKV, dy);
    double forward = 0, backward = 0;
    rotary_table(5, HEAD_DIM, 500000, rope_cos_sin);
    rotary_forward(&heads, rope_cos_sin, y);
    rotary_backward(&heads, rope_cos_sin, dx);
    for (long i = 0; i < QKV; i++) {
        forward += (double)y[i] * (double)dy[i];
        backward += (double)x[i] * (double)dx[i];
    }
    ck_assert_double_eq_tol(forward, backward, 1e-4);
}
END_TEST

/* Positions are relative: the product of a rotated query and key depends only on their distance. */
START_TEST(rotated_products_depend_only_on_the_distance)
{
    const struct attention one = { 1, 40, 1, 1, 8, .blas = NULL };
    float rope_cos_sin[40 * 8], qkv[40 * 24], *same = numeric_floats(&numeric, 24, 1);
    rotary_table(40, 8, 1e4, rope_cos_sin);
    for (long token = 0; token < 40; token++)
        memcpy(qkv + 24 * token, same, 24 * sizeof *same);
    rotary_forward(&one, rope_cos_sin, qkv);
    for (long query = 7; query < 40; query++) {
        double near = dot_f64(8, numeric_doubles(&numeric, 8, qkv + 24 * 7),
                              numeric_doubles(&numeric, 8, qkv + 8));
        double far = dot_f64(8, numeric_doubles(&numeric, 8, qkv + 24 * query),
                             numeric_doubles(&numeric, 8, qkv + 24 * (query - 7) + 8));
        ck_assert_double_eq_tol(near, far, 1e-4);
    }
}
END_TEST

/* --- residual --------------------------------------------------------------------------------- */

enum { ROWS = 12, WIDTH = 1031 };

static const struct residual dropping = {
    .rows = ROWS, .width = WIDTH, .dropout = 0.3, .draw = { 9, 1, 2, 3, NULL }, .first_row = 24
};

START_TEST(a_residual_adds_bias_dropout_and_stream)
{
    long n = (long)ROWS * WIDTH;
    float *x = numeric_floats(&numeric, n, 1), *bias = numeric_floats(&numeric, WIDTH, 1);
    float *h = numeric_floats(&numeric, n, 1), *y = numeric_zeros(&numeric, n);
    uint8_t *keeps = ARENA_ARRAY(&numeric.arena, uint8_t, (size_t)n);
    uint8_t *expected_keeps = ARENA_ARRAY(&numeric.arena, uint8_t, (size_t)n);
    draw_keeps(&dropping.draw, 0.3, 24ul * WIDTH, n, expected_keeps);
    residual_forward(&dropping, x, bias, h, keeps, y);
    ck_assert_mem_eq(keeps, expected_keeps, (size_t)n);
    for (long i = 0; i < n; i++) {
        double branch = keeps[i] ? ((double)x[i] + (double)bias[i % WIDTH]) / 0.7 : 0;
        ck_assert_double_le(fabs((double)y[i] - branch - (double)h[i]), 2e-6);
    }
}
END_TEST

START_TEST(bias_dropout_and_stream_may_be_absent)
{
    struct residual plain = { .rows = ROWS, .width = WIDTH };
    long n = (long)ROWS * WIDTH;
    float *x = numeric_floats(&numeric, n, 1), *h = numeric_floats(&numeric, n, 1);
    float *y = numeric_zeros(&numeric, n), *expected = numeric_copy(&numeric, n, x);
    residual_forward(&plain, x, NULL, NULL, NULL, y);
    numeric_check_same(&numeric, "y = x", n, y, x);
    residual_add(n, h, expected);
    residual_forward(&plain, x, NULL, h, NULL, h);
    numeric_check_same(&numeric, "y = h + x, over h", n, h, expected);
    residual_backward(&plain, x, NULL, y);
    numeric_check_same(&numeric, "dx = dy", n, y, x);
}
END_TEST

START_TEST(gradients_pass_only_where_dropout_kept_values)
{
    long n = (long)ROWS * WIDTH;
    float *dy = numeric_floats(&numeric, n, 1), *dx = numeric_copy(&numeric, n, dy);
    uint8_t *keeps = ARENA_ARRAY(&numeric.arena, uint8_t, (size_t)n);
    draw_keeps(&dropping.draw, 0.3, 24ul * WIDTH, n, keeps);
    residual_backward(&dropping, dx, keeps, dx);
    for (long i = 0; i < n; i++)
        ck_assert_double_le(fabs((double)dx[i] - (keeps[i] ? (double)dy[i] / 0.7 : 0)), 1e-6);
}
END_TEST

/* Sequence parallelism splits the rows; each rank draws the mask of its own rows. */
START_TEST(ranks_with_parts_of_the_rows_drop_the_same_values_as_one_rank)
{
    long n = (long)ROWS * WIDTH, part = n / 4;
    float *x = numeric_floats(&numeric, n, 1), *h = numeric_floats(&numeric, n, 1);
    float *whole = numeric_zeros(&numeric, n), *parts = numeric_zeros(&numeric, n);
    uint8_t *keeps = ARENA_ARRAY(&numeric.arena, uint8_t, (size_t)n);
    residual_forward(&dropping, x, NULL, h, keeps, whole);
    for (int rank = 0; rank < 4; rank++) {
        struct residual own = dropping;
        own.rows = ROWS / 4;
        own.first_row += (uint64_t)(rank * ROWS / 4);
        residual_forward(&own, x + rank * part, NULL, h + rank * part, keeps, parts + rank * part);
    }
    numeric_check_same(&numeric, "y", n, parts, whole);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("host_pointwise");
    TCase *tests = tcase_create("host_pointwise");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_loop_test(tests, activations_are_as_accurate_as_plain_code, 0, NUM_KINDS);
    tcase_add_loop_test(tests, derivatives_of_activations_are_as_accurate_as_plain_code, 0,
                        NUM_KINDS);
    tcase_add_loop_test(tests, gradients_of_activations_equal_finite_differences, 0, NUM_KINDS);
    tcase_add_loop_test(tests, activations_work_in_place_and_without_bias, 0, NUM_KINDS);
    tcase_add_loop_test(tests, activations_of_large_values_are_finite_and_of_nan_are_nan, 0,
                        NUM_KINDS);
    tcase_add_test(tests, rotary_rotates_queries_and_keys_but_not_values);
    tcase_add_test(tests, the_backward_of_a_rotation_is_its_transpose);
    tcase_add_test(tests, rotated_products_depend_only_on_the_distance);
    tcase_add_test(tests, a_residual_adds_bias_dropout_and_stream);
    tcase_add_test(tests, bias_dropout_and_stream_may_be_absent);
    tcase_add_test(tests, gradients_pass_only_where_dropout_kept_values);
    tcase_add_test(tests, ranks_with_parts_of_the_rows_drop_the_same_values_as_one_rank);
    suite_add_tcase(s, tests);
    return s;
}

TEST_MAIN(suite)
