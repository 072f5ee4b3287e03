#include "tests/testing.h"

#include "sim/cost/straggler.h"

#include <math.h>

/* The largest of n standard normal values is 0.5642 (n = 2), 1.4236 (n = 8) or 3.2414 (n = 1000) on
 * average. Blom's approximation is known to stay within about 0.02 of them. */
START_TEST(the_expected_maximum_agrees_with_exact_values)
{
    ck_assert_double_eq_tol(expected_maximum(2), 0.5642, 0.03);
    ck_assert_double_eq_tol(expected_maximum(8), 1.4236, 0.02);
    ck_assert_double_eq_tol(expected_maximum(1000), 3.2414, 0.02);
}
END_TEST

/* P(max of n below x) = Phi(x)^n, so this function of the quantile must give the original
 * probability. */
START_TEST(a_quantile_of_the_maximum_satisfies_its_definition)
{
    static const double counts[] = { 1, 2, 8, 1000, 1e5 };
    for (int i = 0; i < 5; i++)
        for (double p = 0.001; p < 1; p += 0.037) {
            double x = maximum_quantile(counts[i], p);
            double below = pow(1 - 0.5 * erfc(x / sqrt(2)), counts[i]);
            ck_assert_double_eq_tol(below, p, 1.5e-3);
        }
}
END_TEST

START_TEST(the_mean_of_the_quantiles_is_the_expected_maximum)
{
    enum { STEPS = 10000 };
    static const double counts[] = { 1, 8, 512, 12288 };
    for (int i = 0; i < 4; i++) {
        double sum = 0;
        for (int k = 0; k < STEPS; k++)
            sum += maximum_quantile(counts[i], (k + 0.5) / STEPS);
        ck_assert_double_eq_tol(sum / STEPS, expected_maximum(counts[i]), 0.02);
    }
}
END_TEST

START_TEST(one_chip_has_no_slowdown)
{
    ck_assert_double_eq(expected_maximum(1), 0);
}
END_TEST

START_TEST(a_node_has_no_slowdown_relative_to_its_measurement)
{
    for (int gpus = 1; gpus <= 8; gpus++)
        ck_assert_double_eq(straggler_slowdown(0.01, gpus), 1);
}
END_TEST

START_TEST(the_slowdown_never_falls_with_more_chips)
{
    double before = 1;
    for (int gpus = 1; gpus <= 1 << 24; gpus *= 2) {
        double slowdown = straggler_slowdown(0.01, gpus);
        ck_assert_double_ge(slowdown, before);
        before = slowdown;
    }
    ck_assert_double_lt(before, 1.05);
}
END_TEST

/* On average the slowest of 1024 chips is 3.25 standard deviations slower than the mean, and the
 * slowest of a node's 8 is 1.43. The difference slows the job down by 1.8 %. */
START_TEST(a_spread_of_1_percent_costs_about_2_percent_at_1024_gpus)
{
    ck_assert_double_eq_tol(straggler_slowdown(0.01, 1024), 1.018, 0.001);
}
END_TEST

START_TEST(equal_chips_do_not_wait)
{
    ck_assert_double_eq(straggler_slowdown(0, 100000), 1);
}
END_TEST

/* In a measurement two ranks waited 30 to 60 us for each other after 1.65 ms of products. */
START_TEST(the_waiting_of_ranks_that_drift_agrees_with_a_measurement)
{
    ck_assert_double_eq(drift_wait_s(0, 1, 8), 0);
    ck_assert_double_eq(drift_wait_s(8e-6, 1.65e-3, 1), 0);
    double two_s = drift_wait_s(8e-6, 1.65e-3, 2);
    /* Blom's approximation is 4 % off at n = 2 */
    ck_assert_double_eq_tol(two_s, sqrt(8e-6 * 1.65e-3 / acos(-1)), 5e-6);
    ck_assert_double_eq_tol(drift_wait_s(8e-6, 4 * 1.65e-3, 2), 2 * two_s, 1e-12);
    ck_assert_double_gt(drift_wait_s(8e-6, 1.65e-3, 8), 2 * two_s);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("straggler");
    tcase_add_test(tc, the_expected_maximum_agrees_with_exact_values);
    tcase_add_test(tc, a_quantile_of_the_maximum_satisfies_its_definition);
    tcase_add_test(tc, the_mean_of_the_quantiles_is_the_expected_maximum);
    tcase_add_test(tc, one_chip_has_no_slowdown);
    tcase_add_test(tc, a_node_has_no_slowdown_relative_to_its_measurement);
    tcase_add_test(tc, the_slowdown_never_falls_with_more_chips);
    tcase_add_test(tc, a_spread_of_1_percent_costs_about_2_percent_at_1024_gpus);
    tcase_add_test(tc, equal_chips_do_not_wait);
    tcase_add_test(tc, the_waiting_of_ranks_that_drift_agrees_with_a_measurement);
    Suite *s = suite_create("sim/cost/straggler");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
