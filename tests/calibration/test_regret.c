#include "tests/testing.h"

#include "tests/calibration/regret.h"

#include <math.h>

START_TEST(the_wilson_interval_of_30_in_40_is_that_of_the_formula)
{
    /* Wilson's interval is (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n). With p =
     * 0.75, n = 40 and z = 1.96 this is (0.79802 +- 0.14251) / 1.09604. */
    struct interval interval = wilson(30, 40);
    ck_assert_double_eq_tol(interval.low, 0.5981, 1e-4);
    ck_assert_double_eq_tol(interval.high, 0.8581, 1e-4);
}
END_TEST

START_TEST(with_no_success_or_no_failure_one_end_is_0_or_1)
{
    ck_assert_double_eq_tol(wilson(0, 40).low, 0, 1e-12);
    ck_assert_double_eq_tol(wilson(0, 40).high, 0.0876, 1e-4); /* z^2 / (n + z^2) */
    ck_assert_double_eq_tol(wilson(40, 40).low, 1 - 0.0876, 1e-4);
    ck_assert_double_eq_tol(wilson(40, 40).high, 1, 1e-12);
}
END_TEST

START_TEST(quantiles_are_interpolated_between_values)
{
    double values[] = { 4, 1, HUGE_VAL, 2, 3 };
    ck_assert_double_eq(quantile(values, 5, 0), 1);
    ck_assert_double_eq(quantile(values, 5, 0.5), 3);
    ck_assert_double_eq(quantile(values, 5, 0.625), 3.5);
    ck_assert_double_eq(quantile(values, 5, 1), HUGE_VAL);
}
END_TEST

START_TEST(two_alternating_runs_have_the_lesser_regret_of_both)
{
    double first_regret[] = { HUGE_VAL, 0.5, 0.3 }, first_s[] = { 0, 1, 2 };
    double second_regret[] = { HUGE_VAL, 0.4, 0 }, second_s[] = { 0, 10, 20 };
    struct regret_run first = { 2, first_regret, first_s };
    struct regret_run second = { 2, second_regret, second_s };
    struct arena arena = { 0 };
    struct regret_run both = regret_of_both(&first, &second, &arena);
    static const double regret[] = { HUGE_VAL, 0.5, 0.4, 0.3, 0 };
    static const double core_s[] = { 0, 1, 11, 12, 22 };
    ck_assert_int_eq(both.budget, 4);
    for (int i = 0; i <= 4; i++) {
        ck_assert_double_eq(both.regret[i], regret[i]);
        ck_assert_double_eq(both.core_s[i], core_s[i]);
    }
    ck_assert_double_eq(regret_scores_to(&both, 0.4), 2);
    ck_assert_double_eq(regret_scores_to(&first, 0.1), HUGE_VAL);
    ck_assert_double_eq(regret_at_time(&both, 11.5), 0.4);
    ck_assert_double_eq(regret_at_time(&both, 0.5), HUGE_VAL);
    arena_release(&arena);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("regret");
    TCase *tests = tcase_create("regret");
    tcase_add_test(tests, the_wilson_interval_of_30_in_40_is_that_of_the_formula);
    tcase_add_test(tests, with_no_success_or_no_failure_one_end_is_0_or_1);
    tcase_add_test(tests, quantiles_are_interpolated_between_values);
    tcase_add_test(tests, two_alternating_runs_have_the_lesser_regret_of_both);
    suite_add_tcase(s, tests);
    return s;
}

TEST_MAIN(suite)
