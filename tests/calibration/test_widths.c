#include "tests/testing.h"

#include "calibration/fit/stack_widths.h"
#include "sim/engine/interval.h"

#include <math.h>

enum { COMMON, COMPUTE, TENSOR, CONTEXT, PIPELINE, BUBBLE, DATA, OPTIMIZER, OTHER };

static const struct width_rules rules = {
    .prior_rows = 10,
    .cutoff = 2,
    .prior = { 0.02, 0.05, 0.1, 0.15, 0.2, 0.1, 0.2, 0.15, 0.2 },
};

static struct arena arena;
static struct width_row rows[600];
static struct family_widths found[601];

static void release(void)
{
    arena_release(&arena);
}

static struct width_row row_of(const char *stack, int part, double error)
{
    struct width_row row = { .stack = stack, .error = error };
    row.shares[COMMON] = 1;
    row.shares[part] = 1;
    return row;
}

/* Returns the i-th of n equally spaced quantiles of the absolute value of a normal error; half of
 * these values are below 0.67 sigma. */
static double normal_error(int i, int n, double sigma)
{
    static const double at[] = { -1.645, -1.036, -0.674, -0.385, -0.126,
                                 0.126,  0.385,  0.674,  1.036,  1.645 };
    return sigma * at[i * 10 / n];
}

/* Nine in ten normal errors lie within 1.645 sigma. */
START_TEST(fitted_widths_equal_those_of_the_drawn_errors)
{
    int n = 0;
    for (int i = 0; i < 200; i++)
        rows[n++] = row_of("one", COMPUTE, normal_error(i, 200, 0.05));
    for (int i = 0; i < 200; i++)
        rows[n++] = row_of("one", DATA, normal_error(i, 200, 0.3));
    ck_assert_int_eq(widths_find(&rules, rows, n, &arena, found), 2);
    ck_assert_double_eq_tol(interval_of_widths(&found[0].widths, rows[0].shares), 0.082, 0.01);
    ck_assert_double_eq_tol(interval_of_widths(&found[0].widths, rows[n - 1].shares), 0.49, 0.06);
}
END_TEST

START_TEST(a_stack_with_few_rows_has_the_width_of_all_rows)
{
    int n = 0;
    for (int i = 0; i < 200; i++)
        rows[n++] = row_of("many", COMPUTE, normal_error(i, 200, 0.1));
    rows[n++] = row_of("one", COMPUTE, 0.001);
    int count = widths_find(&rules, rows, n, &arena, found);
    ck_assert_int_eq(count, 3);
    ck_assert_int_eq(found[1].rows, 1);
    double own = error_width(&found[1].widths, COMPUTE);
    double pooled = error_width(&found[2].widths, COMPUTE);
    ck_assert_double_gt(own, 0.8 * pooled);
    ck_assert_double_lt(own, pooled);
    ck_assert_double_eq_tol(error_width(&found[1].widths, DATA),
                            error_width(&found[2].widths, DATA), 1e-12);
}
END_TEST

START_TEST(without_rows_widths_equal_the_prior)
{
    ck_assert_int_eq(widths_find(&rules, rows, 0, &arena, found), 1);
    for (int k = 0; k < NUM_ERROR_PARTS; k++)
        ck_assert_double_eq_tol(error_width(&found[0].widths, k), error_width(&rules.prior, k),
                                1e-12);
}
END_TEST

START_TEST(larger_errors_never_make_an_interval_narrower)
{
    double before = 0;
    for (double sigma = 0.01; sigma < 0.5; sigma *= 1.5) {
        for (int i = 0; i < 100; i++) {
            rows[i] = row_of("one", COMPUTE, normal_error(i, 100, sigma));
            rows[i].shares[COMPUTE] = 0.6;
            rows[i].shares[DATA] = 0.4;
        }
        widths_find(&rules, rows, 100, &arena, found);
        double width = interval_of_widths(&found[0].widths, rows[0].shares);
        ck_assert_double_gt(width, before);
        before = width;
    }
}
END_TEST

/* --- the shipped runs ------------------------------------------------------------------------- */

static struct fit_table table;
static struct families families;

static void load(void)
{
    struct err err = { 0 };
    ck_assert_msg(fit_table_load(NULL, &table, &err), "%s", err.msg);
    ck_assert_msg(families_find(&table, NULL, 0, 2, &families, &err), "%s", err.msg);
}

static void unload(void)
{
    families_release(&families);
    fit_table_release(&table);
}

START_TEST(intervals_fitted_without_a_row_cover_nine_in_ten_rows)
{
    ck_assert_int_gt(families.rows, 1500);
    ck_assert_double_ge(families.left_out, 0.85);
    ck_assert_double_le(families.left_out, 0.95);
    ck_assert_double_ge(families.covered, 0.85);
    ck_assert_double_le(families.covered, 0.95);
    for (int i = 0; i < families.count; i++)
        if (families.at[i].rows >= 30) {
            ck_assert_double_ge(families.at[i].left_out, 0.85);
            ck_assert_double_le(families.at[i].left_out, 0.95);
        }
}
END_TEST

START_TEST(shipped_widths_equal_those_of_a_refit)
{
    for (int i = 0; i < families.count; i++) {
        struct stack stack;
        struct err err = { 0 };
        ck_assert_msg(stack_load(families.at[i].stack, &stack, &err), "%s", err.msg);
        for (int k = 0; k < NUM_ERROR_PARTS; k++)
            ck_assert_msg(error_width(&stack.errors.widths, k) ==
                              error_width(&families.at[i].widths, k),
                          "%s: %s", families.at[i].stack, error_width_fields[k].name);
        ck_assert_double_eq(stack.memory.error, families.at[i].memory);
        ck_assert_double_eq(stack.memory.shift, families.at[i].memory_shift);
        stack_release(&stack);
    }
}
END_TEST

/* Predictions of traffic between nodes have wider intervals than those of compute. */
START_TEST(a_step_dominated_by_data_traffic_has_a_wider_interval_than_one_of_compute)
{
    for (int i = 0; i < families.count; i++) {
        const struct error_widths *widths = &families.at[i].widths;
        double compute[NUM_ERROR_PARTS] = { 1, 1 }, half[NUM_ERROR_PARTS] = { 1, 0.2 };
        half[DATA] = 0.8;
        ck_assert_double_gt(interval_of_widths(widths, half), interval_of_widths(widths, compute));
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("calibration/fit/widths");
    TCase *laws = tcase_create("laws");
    tcase_add_checked_fixture(laws, NULL, release);
    tcase_add_test(laws, fitted_widths_equal_those_of_the_drawn_errors);
    tcase_add_test(laws, a_stack_with_few_rows_has_the_width_of_all_rows);
    tcase_add_test(laws, without_rows_widths_equal_the_prior);
    tcase_add_test(laws, larger_errors_never_make_an_interval_narrower);
    suite_add_tcase(s, laws);
    TCase *shipped = tcase_create("shipped");
    tcase_add_unchecked_fixture(shipped, load, unload);
    tcase_add_test(shipped, intervals_fitted_without_a_row_cover_nine_in_ten_rows);
    tcase_add_test(shipped, shipped_widths_equal_those_of_a_refit);
    tcase_add_test(shipped,
                   a_step_dominated_by_data_traffic_has_a_wider_interval_than_one_of_compute);
    suite_add_tcase(s, shipped);
    return s;
}

TEST_MAIN(suite)
