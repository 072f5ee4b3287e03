#include "kernels/host/norm.h"
#include "tests/kernels/numeric.h"
#include "tests/kernels/reference.h"
#include "tests/testing.h"

#include <string.h>

static struct numeric numeric;

static void begin(void)
{
    numeric = numeric_begin(2);
}

static void end(void)
{
    numeric_end(&numeric);
}

/* Draws values far from 0, for which a variance by E(x^2) - E(x)^2 would lose its digits. */
static float *shifted_floats(long n, float shift)
{
    float *x = numeric_floats(&numeric, n, 1);
    for (long i = 0; i < n; i++)
        x[i] += shift;
    return x;
}

static const struct {
    long rows, width;
} shapes[] = { { 1, 13 }, { 3, 11 }, { 7, 16 }, { 2, 17 }, { 5, 61 }, { 31, 257 } };
enum { NUM_SHAPES = LENGTH(shapes), NUM_SMALL = 5 };

/* Inputs and results of a norm, in fp32 and double. */
struct norm_case {
    struct norm norm;
    float *x, *gamma, *beta, *dy;
    float *y, *mean, *rstd, *dx, *dgamma, *dbeta;
    double *x64, *gamma64, *beta64, *dy64, *y64;
};

static struct norm_case norm_case(long rows, long width, float shift)
{
    long n = rows * width;
    struct norm_case c = {
        .norm = { .rows = rows, .width = width, .epsilon = 1e-5F },
        .x = shifted_floats(n, shift),
        .gamma = shifted_floats(width, 1),
        .beta = numeric_floats(&numeric, width, 1),
        .dy = numeric_floats(&numeric, n, 1),
        .y = numeric_zeros(&numeric, n),
        .mean = numeric_zeros(&numeric, rows),
        .rstd = numeric_zeros(&numeric, rows),
        .dx = numeric_zeros(&numeric, n),
        .dgamma = numeric_zeros(&numeric, width),
        .dbeta = numeric_zeros(&numeric, width),
        .y64 = ARENA_ARRAY(&numeric.arena, double, (size_t)n),
    };
    c.x64 = numeric_doubles(&numeric, n, c.x);
    c.gamma64 = numeric_doubles(&numeric, width, c.gamma);
    c.beta64 = numeric_doubles(&numeric, width, c.beta);
    c.dy64 = numeric_doubles(&numeric, n, c.dy);
    return c;
}

static double layer_norm_value(const void *context)
{
    const struct norm_case *c = context;
    layer_norm_f64(c->norm.rows, c->norm.width, (double)c->norm.epsilon, c->x64, c->gamma64,
                   c->beta64, c->y64);
    return numeric_weighted(c->norm.rows * c->norm.width, c->dy, c->y64);
}

static double rms_norm_value(const void *context)
{
    const struct norm_case *c = context;
    rms_norm_f64(c->norm.rows, c->norm.width, (double)c->norm.epsilon, c->x64, c->gamma64, c->y64);
    return numeric_weighted(c->norm.rows * c->norm.width, c->dy, c->y64);
}

static void run_layer_norm(struct norm_case *c)
{
    layer_norm_forward(&c->norm, c->x, c->gamma, c->beta, c->y, c->mean, c->rstd);
    layer_norm_backward(&c->norm, c->dy, c->x, c->gamma, c->mean, c->rstd, c->dx, c->dgamma,
                        c->dbeta);
}

static void run_rms_norm(struct norm_case *c)
{
    rms_norm_forward(&c->norm, c->x, c->gamma, c->y, c->rstd);
    rms_norm_backward(&c->norm, c->dy, c->x, c->gamma, c->rstd, c->dx, c->dgamma);
}

/* Compares the result y and the gradient dx of the input with those of plain code. */
static void check_norm_errors(struct norm_case *c, int is_centered, const float *plain_y)
{
    long rows = c->norm.rows, width = c->norm.width;
    double *dx64 = ARENA_ARRAY(&numeric.arena, double, (size_t)(rows * width));
    float *dx32 = numeric_zeros(&numeric, rows * width);
    norm_backward_f64(rows, width, (double)c->norm.epsilon, is_centered, c->dy64, c->x64,
                      c->gamma64, dx64);
    norm_backward_f32(rows, width, c->norm.epsilon, is_centered, c->dy, c->x, c->gamma, dx32);
    numeric_check(&numeric, &(struct numeric_result){ "y", rows, width, c->y, c->y64, plain_y },
                  1e-5);
    numeric_check(&numeric, &(struct numeric_result){ "dx", rows, width, c->dx, dx64, dx32 }, 1e-5);
}

START_TEST(layer_norm_is_as_accurate_as_plain_code)
{
    struct norm_case c = norm_case(shapes[_i].rows, shapes[_i].width, 2);
    float *plain = numeric_zeros(&numeric, c.norm.rows * c.norm.width);
    run_layer_norm(&c);
    layer_norm_value(&c);
    layer_norm_f32(c.norm.rows, c.norm.width, c.norm.epsilon, c.x, c.gamma, c.beta, plain);
    check_norm_errors(&c, 1, plain);
}
END_TEST

START_TEST(rms_norm_is_as_accurate_as_plain_code)
{
    struct norm_case c = norm_case(shapes[_i].rows, shapes[_i].width, 2);
    float *plain = numeric_zeros(&numeric, c.norm.rows * c.norm.width);
    run_rms_norm(&c);
    rms_norm_value(&c);
    rms_norm_f32(c.norm.rows, c.norm.width, c.norm.epsilon, c.x, c.gamma, plain);
    check_norm_errors(&c, 0, plain);
}
END_TEST

START_TEST(gradients_of_layer_norm_equal_finite_differences)
{
    struct norm_case c = norm_case(shapes[_i].rows, shapes[_i].width, 0);
    struct numeric_function value = { layer_norm_value, &c };
    long n = c.norm.rows * c.norm.width, width = c.norm.width;
    run_layer_norm(&c);
    numeric_check_gradient(&numeric, "dx", value, n, c.x64, c.dx, 1e-4);
    numeric_check_gradient(&numeric, "dgamma", value, width, c.gamma64, c.dgamma, 1e-5);
    numeric_check_gradient(&numeric, "dbeta", value, width, c.beta64, c.dbeta, 1e-5);
}
END_TEST

START_TEST(gradients_of_rms_norm_equal_finite_differences)
{
    struct norm_case c = norm_case(shapes[_i].rows, shapes[_i].width, 0);
    struct numeric_function value = { rms_norm_value, &c };
    run_rms_norm(&c);
    numeric_check_gradient(&numeric, "dx", value, c.norm.rows * c.norm.width, c.x64, c.dx, 1e-5);
    numeric_check_gradient(&numeric, "dgamma", value, c.norm.width, c.gamma64, c.dgamma, 1e-5);
}
END_TEST

START_TEST(norms_work_in_place_add_to_gradients_and_repeat_bit_for_bit)
{
    struct norm_case c = norm_case(13, 37, 1);
    run_layer_norm(&c);
    struct norm_case again = c;
    long n = 13 * 37;
    again.y = numeric_copy(&numeric, n, c.x);
    again.dx = numeric_copy(&numeric, n, c.dy);
    again.dgamma = numeric_zeros(&numeric, 37);
    again.dbeta = numeric_zeros(&numeric, 37);
    layer_norm_forward(&c.norm, again.y, c.gamma, c.beta, again.y, c.mean, c.rstd);
    layer_norm_backward(&c.norm, again.dx, c.x, c.gamma, c.mean, c.rstd, again.dx, again.dgamma,
                        again.dbeta);
    numeric_check_same(&numeric, "y in place", n, again.y, c.y);
    numeric_check_same(&numeric, "dx in place", n, again.dx, c.dx);
    numeric_check_same(&numeric, "dgamma", 37, again.dgamma, c.dgamma);
    run_layer_norm(&again);
    for (int i = 0; i < 37; i++)
        c.dbeta[i] *= 2;
    numeric_check_near(&numeric, "dbeta twice", 37, again.dbeta, c.dbeta, 1e-6);
}
END_TEST

/* --- heads of packed qkv ---------------------------------------------------------------------- */

static const struct attention heads = {
    .sequences = 2, .seq = 3, .heads = 6, .kv_heads = 2, .head_dim = 5
};

enum { HEAD_ROWS = 2 * 3 * (6 + 2), HEAD_DIM = 5, GROUP = 5, TOKEN_GROUPS = 2 * 3 * 2 };

/* The heads of a group are queries, then one key (KEY_PART), then one value (VALUE_PART). */
enum { KEY_PART = 3, VALUE_PART = 4 };

START_TEST(queries_and_keys_but_not_values_are_normed_per_head)
{
    long n = attention_tokens(&heads) * attention_qkv_width(&heads);
    float *qkv = numeric_floats(&numeric, n, 1), *before = numeric_copy(&numeric, n, qkv);
    float *query = shifted_floats(HEAD_DIM, 1), *key = shifted_floats(HEAD_DIM, 1);
    float inputs[HEAD_ROWS * HEAD_DIM], rstd[HEAD_ROWS], expected[HEAD_DIM], one_rstd;
    struct norm norm = { .rows = 1, .width = HEAD_DIM, .epsilon = 1e-6F };
    head_norm_forward(&heads, 1e-6F, (struct head_norm_weights){ query, key }, qkv, inputs, rstd);
    for (long i = 0; i < TOKEN_GROUPS * GROUP; i++) {
        long part = i % GROUP;
        const float *x = before + i * HEAD_DIM;
        rms_norm_forward(&norm, x, part == KEY_PART ? key : query, expected, &one_rstd);
        numeric_check_same(&numeric, "head", HEAD_DIM, qkv + i * HEAD_DIM,
                           part == VALUE_PART ? x : expected);
    }
}
END_TEST

/* Queries and keys of head_norm's input, in double. */
struct head_case {
    double *qkv, *query, *key;
    float *dy;
};

static double head_value(const void *context)
{
    const struct head_case *c = context;
    double sum = 0, y[HEAD_DIM];
    for (long i = 0; i < TOKEN_GROUPS * GROUP; i++) {
        const double *x = c->qkv + i * HEAD_DIM;
        if (i % GROUP == VALUE_PART)
            memcpy(y, x, sizeof y);
        else
            rms_norm_f64(1, HEAD_DIM, 1e-6, x, i % GROUP == KEY_PART ? c->key : c->query, y);
        sum += numeric_weighted(HEAD_DIM, c->dy + i * HEAD_DIM, y);
    }
    return sum;
}

START_TEST(gradients_of_head_norms_equal_finite_differences)
{
    long n = attention_tokens(&heads) * attention_qkv_width(&heads);
    float *qkv = numeric_floats(&numeric, n, 1);
    float *query = shifted_floats(HEAD_DIM, 1), *key = shifted_floats(HEAD_DIM, 1);
    float inputs[HEAD_ROWS * HEAD_DIM], rstd[HEAD_ROWS];
    float dquery[HEAD_DIM] = { 0 }, dkey[HEAD_DIM] = { 0 };
    struct head_case c = { numeric_doubles(&numeric, n, qkv),
                           numeric_doubles(&numeric, HEAD_DIM, query),
                           numeric_doubles(&numeric, HEAD_DIM, key),
                           numeric_floats(&numeric, n, 1) };
    struct numeric_function value = { head_value, &c };
    struct head_norm_weights gamma = { query, key };
    float *dqkv = numeric_copy(&numeric, n, c.dy);
    head_norm_forward(&heads, 1e-6F, gamma, qkv, inputs, rstd);
    head_norm_backward(&heads, gamma, inputs, rstd, dqkv,
                       (struct head_norm_gradients){ dquery, dkey });
    numeric_check_gradient(&numeric, "dqkv", value, n, c.qkv, dqkv, 1e-5);
    numeric_check_gradient(&numeric, "dquery", value, HEAD_DIM, c.query, dquery, 1e-5);
    numeric_check_gradient(&numeric, "dkey", value, HEAD_DIM, c.key, dkey, 1e-5);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("host_norm");
    TCase *tests = tcase_create("host_norm");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_loop_test(tests, layer_norm_is_as_accurate_as_plain_code, 0, NUM_SHAPES);
    tcase_add_loop_test(tests, rms_norm_is_as_accurate_as_plain_code, 0, NUM_SHAPES);
    tcase_add_loop_test(tests, gradients_of_layer_norm_equal_finite_differences, 0, NUM_SMALL);
    tcase_add_loop_test(tests, gradients_of_rms_norm_equal_finite_differences, 0, NUM_SMALL);
    tcase_add_test(tests, norms_work_in_place_add_to_gradients_and_repeat_bit_for_bit);
    tcase_add_test(tests, queries_and_keys_but_not_values_are_normed_per_head);
    tcase_add_test(tests, gradients_of_head_norms_equal_finite_differences);
    suite_add_tcase(s, tests);
    return s;
}

TEST_MAIN(suite)
