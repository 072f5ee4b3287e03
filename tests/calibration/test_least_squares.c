#include "tests/testing.h"

#include "calibration/fit/least_squares.h"

#include <math.h>
#include <string.h>

enum { MOST = 8 };

/* A problem with simple settings: very wide bounds, no prior, squared loss, equal weights of all
 * rows. */
struct plain {
    double min[MOST], max[MOST], prior[MOST], weight[MOST];
    struct least_squares problem;
};

static void make(struct plain *p, int num_parameters, int num_residuals,
                 void (*residuals)(void *, const double *, double *))
{
    for (int i = 0; i < MOST; i++) {
        p->min[i] = -1e6;
        p->max[i] = 1e6;
        p->prior[i] = 0;
        p->weight[i] = 1;
    }
    p->problem = (struct least_squares){
        .num_parameters = num_parameters,
        .num_residuals = num_residuals,
        .min = p->min,
        .max = p->max,
        .prior = p->prior,
        .weight = p->weight,
        .scale = 1e6,
        .cutoff = HUGE_VAL,
        .residuals = residuals,
    };
}

/* The rows are y = 3 + 2 t at t = 0, 1, 2, 3, plus `noise`. */
static void line(void *context, const double *x, double *out)
{
    const double *noise = context;
    for (int i = 0; i < 4; i++)
        out[i] = x[0] + x[1] * i - (3 + 2 * i + (noise ? noise[i] : 0));
}

static void rosenbrock(void *context, const double *x, double *out)
{
    (void)context;
    out[0] = 10 * (x[1] - x[0] * x[0]);
    out[1] = 1 - x[0];
}

/* Residuals of a constant x[0] from the values 1, 1, 1, 1 and 2. */
static void constant(void *context, const double *x, double *out)
{
    (void)context;
    for (int i = 0; i < 5; i++)
        out[i] = x[0] - (i < 4 ? 1 : 2);
}

static void solve(const struct plain *p, double *x)
{
    struct least_squares_end end = least_squares_solve(&p->problem, x);
    ck_assert(end.converged);
}

START_TEST(a_line_is_recovered)
{
    struct plain p;
    double x[2] = { 0, 0 };
    make(&p, 2, 4, line);
    solve(&p, x);
    ck_assert_double_eq_tol(x[0], 3, 1e-9);
    ck_assert_double_eq_tol(x[1], 2, 1e-9);
}
END_TEST

START_TEST(the_minimum_of_rosenbrocks_valley_is_found)
{
    struct plain p;
    double x[2] = { -1.2, 1 };
    make(&p, 2, 2, rosenbrock);
    solve(&p, x);
    ck_assert_double_eq_tol(x[0], 1, 1e-5);
    ck_assert_double_eq_tol(x[1], 1, 1e-5);
}
END_TEST

/* With x0 <= 0.5, the minimum of Rosenbrock's valley is at (0.5, 0.25). */
START_TEST(under_a_bound_the_other_parameters_are_optimal)
{
    struct plain p;
    double x[2] = { -1.2, 1 };
    make(&p, 2, 2, rosenbrock);
    p.max[0] = 0.5;
    solve(&p, x);
    ck_assert_double_eq(x[0], 0.5);
    ck_assert_double_eq_tol(x[1], 0.25, 1e-4);
}
END_TEST

START_TEST(a_start_outside_a_bound_is_moved_to_the_bound)
{
    struct plain p;
    double x[2] = { 9, 9 };
    make(&p, 2, 4, line);
    p.max[0] = p.min[0] = 1;
    solve(&p, x);
    ck_assert_double_eq(x[0], 1);
}
END_TEST

/* The 5 values have weight 1 and mean 1.2; the prior 0 has weight p^2 = 5. So the result is (5 x
 * 1.2 + 5 x 0) / (5 + 5) = 0.6. */
START_TEST(a_prior_acts_by_its_weight)
{
    struct plain p;
    double x = 7;
    make(&p, 1, 5, constant);
    p.problem.prior_weight = sqrt(5);
    solve(&p, &x);
    ck_assert_double_eq_tol(x, 0.6, 1e-6);
}
END_TEST

/* Squared loss gives the mean, 1.2. The soft loss gives less weight to large residuals, so its
 * result is near the four equal values. */
START_TEST(an_outlier_has_little_effect_on_a_soft_loss)
{
    struct plain p;
    double x = 0;
    make(&p, 1, 5, constant);
    solve(&p, &x);
    ck_assert_double_eq_tol(x, 1.2, 1e-6);
    p.problem.scale = 0.01;
    solve(&p, &x);
    ck_assert_double_lt(x, 1.01);
}
END_TEST

START_TEST(residuals_beyond_the_cutoff_have_no_effect)
{
    struct plain p;
    double x = 0.9;
    make(&p, 1, 5, constant);
    p.problem.cutoff = 0.5;
    solve(&p, &x);
    ck_assert_double_eq_tol(x, 1, 1e-9);
}
END_TEST

START_TEST(a_row_of_weight_0_is_left_out)
{
    struct plain p;
    double x = 0;
    make(&p, 1, 5, constant);
    p.weight[4] = 0;
    solve(&p, &x);
    ck_assert_double_eq_tol(x, 1, 1e-9);
}
END_TEST

START_TEST(a_parameter_without_effect_keeps_its_start)
{
    struct plain p;
    double x[3] = { 0, 0, 5 };
    make(&p, 3, 4, line);
    solve(&p, x);
    ck_assert_double_eq(x[2], 5);
}
END_TEST

/* The covariance is the inverse of J^T J, times the mean square of the residuals. For a line
 * through 4 points J^T J is [[4, 6], [6, 14]], and its inverse is [[0.7, -0.3], [-0.3, 0.2]]. Noise
 * of +-0.1 that is orthogonal to both columns changes neither parameter and has the mean square
 * 0.01. */
START_TEST(the_covariance_equals_the_textbook_formula)
{
    double noise[4] = { 0.1 / sqrt(5), -0.3 / sqrt(5), 0.3 / sqrt(5), -0.1 / sqrt(5) };
    struct plain p;
    double x[2] = { 0, 0 }, covariance[4];
    make(&p, 2, 4, line);
    p.problem.context = noise;
    solve(&p, x);
    least_squares_covariance(&p.problem, x, covariance);
    double square = (0.01 + 0.09 + 0.09 + 0.01) / 5 / 4;
    ck_assert_double_eq_tol(x[1], 2, 1e-9);
    ck_assert_double_eq_tol(covariance[0], 0.7 * square, 1e-6 * square);
    ck_assert_double_eq_tol(covariance[1], -0.3 * square, 1e-6 * square);
    ck_assert_double_eq_tol(covariance[3], 0.2 * square, 1e-6 * square);
}
END_TEST

START_TEST(a_parameter_on_a_bound_has_no_variance)
{
    struct plain p;
    double x[2] = { 0, 0 }, covariance[4];
    make(&p, 2, 4, line);
    p.max[0] = 2;
    solve(&p, x);
    least_squares_covariance(&p.problem, x, covariance);
    ck_assert_double_eq(covariance[0], 0);
    ck_assert_double_eq(covariance[1], 0);
    ck_assert_double_gt(covariance[3], 0);
}
END_TEST

START_TEST(solving_again_gives_the_same_bits)
{
    struct plain p;
    double x[2] = { -1.2, 1 }, again[2] = { -1.2, 1 };
    make(&p, 2, 2, rosenbrock);
    solve(&p, x);
    solve(&p, again);
    ck_assert_mem_eq(x, again, sizeof x);
}
END_TEST

static Suite *least_squares_suite(void)
{
    Suite *suite = suite_create("least_squares");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, a_line_is_recovered);
    tcase_add_test(tcase, the_minimum_of_rosenbrocks_valley_is_found);
    tcase_add_test(tcase, under_a_bound_the_other_parameters_are_optimal);
    tcase_add_test(tcase, a_start_outside_a_bound_is_moved_to_the_bound);
    tcase_add_test(tcase, a_prior_acts_by_its_weight);
    tcase_add_test(tcase, an_outlier_has_little_effect_on_a_soft_loss);
    tcase_add_test(tcase, residuals_beyond_the_cutoff_have_no_effect);
    tcase_add_test(tcase, a_row_of_weight_0_is_left_out);
    tcase_add_test(tcase, a_parameter_without_effect_keeps_its_start);
    tcase_add_test(tcase, the_covariance_equals_the_textbook_formula);
    tcase_add_test(tcase, a_parameter_on_a_bound_has_no_variance);
    tcase_add_test(tcase, solving_again_gives_the_same_bits);
    suite_add_tcase(suite, tcase);
    return suite;
}

TEST_MAIN(least_squares_suite)
