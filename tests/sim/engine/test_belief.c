/* The joint distribution of step times against formulas for one and two normal variables. Means and
 * deviations are of the logarithm of seconds. */
#include "sim/engine/belief.h"

#include "base/normal.h"
#include "tests/testing.h"

#include <math.h>

/* Three rivals whose times are nearly known: the second is 1 % slower than the first, which still
 * counts as fastest, and the third 5 %. */
static struct belief known_times(void)
{
    struct belief belief = { .count = 3, .rivals = 3, .mean = { 0, 0.01, 0.05 } };
    for (int i = 0; i < 3; i++)
        belief.cov[i][i] = 1e-20;
    return belief;
}

/* Two rivals with deviations of 10 and 20 % and the correlation 0.5. */
static struct belief correlated_pair(double gap)
{
    struct belief belief = { .count = 2, .rivals = 2, .mean = { 0, gap } };
    belief.cov[0][0] = 0.1 * 0.1;
    belief.cov[1][1] = 0.2 * 0.2;
    belief.cov[0][1] = belief.cov[1][0] = 0.5 * 0.1 * 0.2;
    return belief;
}

START_TEST(plans_within_two_percent_of_the_fastest_count_as_fastest)
{
    struct belief belief = known_times();
    double chance[3];
    belief_chances(&belief, chance);
    ck_assert_double_eq(chance[0], 1);
    ck_assert_double_eq(chance[1], 1);
    ck_assert_double_eq(chance[2], 0);
}
END_TEST

START_TEST(of_equally_likely_plans_the_one_with_the_lower_mean_is_chosen)
{
    for (int first = 0; first < 3; first++) {
        struct belief belief = known_times();
        double least = belief.mean[0], chance;
        belief.mean[0] = belief.mean[first];
        belief.mean[first] = least;
        ck_assert_int_eq(belief_choice(&belief, &chance), first);
        ck_assert_double_eq(chance, 1);
    }
}
END_TEST

/* The difference of two normal numbers is normal with variance 0.01 + 0.04 - 2 x 0.01. */
START_TEST(the_probability_of_being_faster_is_that_of_a_normal_difference)
{
    const double gaps[] = { -0.3, -0.05, 0, 0.1, 0.4 };
    for (int i = 0; i < 5; i++) {
        struct belief belief = correlated_pair(gaps[i]);
        double faster = normal_cdf(gaps[i] / sqrt(0.03));
        ck_assert_double_eq_tol(belief_prefers(&belief, 0, 1), faster, 1e-9);
        ck_assert_double_eq_tol(belief_prefers(&belief, 1, 0), 1 - faster, 1e-9);
    }
    struct belief known = known_times();
    ck_assert_double_eq(belief_prefers(&known, 0, 1), 1);
    ck_assert_double_eq(belief_prefers(&known, 1, 0), 0);
}
END_TEST

/* A plan is among the fastest if the difference of the two times is below log(1.02). The standard
 * error of a share of 400 draws is at most 0.025. */
START_TEST(chances_are_those_of_a_normal_difference)
{
    struct belief belief = correlated_pair(0.1);
    double chance[2], close = log(1.02);
    belief_chances(&belief, chance);
    ck_assert_double_eq_tol(chance[0], normal_cdf((0.1 + close) / sqrt(0.03)), 0.08);
    ck_assert_double_eq_tol(chance[1], normal_cdf((-0.1 + close) / sqrt(0.03)), 0.08);
}
END_TEST

/* A measurement with 1 % of noise conditions both runs (the formula of a bivariate normal). */
START_TEST(a_measured_run_moves_the_other_by_their_covariance)
{
    struct belief belief = correlated_pair(0.1);
    double noisy = 0.01 + SD_OF_NOISE * SD_OF_NOISE;
    belief_learn(&belief, 0, exp(0.15));
    ck_assert_double_eq_tol(belief.mean[0], 0.15 * 0.01 / noisy, 1e-12);
    ck_assert_double_eq_tol(belief.mean[1], 0.1 + 0.15 * 0.01 / noisy, 1e-12);
    ck_assert_double_eq_tol(belief.cov[0][0], 0.01 - 0.01 * 0.01 / noisy, 1e-12);
    ck_assert_double_eq_tol(belief.cov[0][1], 0.01 - 0.01 * 0.01 / noisy, 1e-12);
    ck_assert_double_eq_tol(belief.cov[1][1], 0.04 - 0.01 * 0.01 / noisy, 1e-12);
}
END_TEST

/* A plan with a 64 % chance of being faster does not replace the present plan, one with 66 % does.
 */
START_TEST(only_a_plan_that_is_surely_faster_replaces_the_present_one)
{
    for (int is_sure = 0; is_sure < 2; is_sure++) {
        double gap = sqrt(0.03) * normal_quantile(SURE_GAIN + (is_sure ? 0.01 : -0.01));
        struct belief belief = correlated_pair(-gap);
        double chance, all[2];
        belief_chances(&belief, all);
        ck_assert_int_eq(belief_advice(&belief, 0, &chance), is_sure);
        ck_assert_double_eq(chance, all[is_sure]);
        ck_assert_int_eq(belief_advice(&belief, -1, &chance), belief_choice(&belief, &chance));
        ck_assert_int_eq(belief_advice(&belief, 1, &chance), 1);
    }
}
END_TEST

/* A run that is nearly free of noise tells which of two independent rivals is faster, if the other
 * is known: all of the information is gained. A run of a known plan tells nothing. */
START_TEST(a_run_gains_what_it_tells_about_the_fastest)
{
    struct belief belief = { .count = 2, .rivals = 2 };
    belief.cov[0][0] = 1e-20;
    belief.cov[1][1] = 1;
    struct outlook none = belief_outlook(&belief, (const int[]){ 0 }, 1);
    struct outlook told = belief_outlook(&belief, (const int[]){ 1 }, 1);
    double chance;
    belief_choice(&belief, &chance);
    ck_assert_double_eq_tol(none.bits, 0, 0.01);
    ck_assert_double_eq_tol(none.p_best, chance, 0.05);
    ck_assert_double_ge(told.bits, 0.9);
    ck_assert_double_le(told.bits, 1);
    ck_assert_double_ge(told.p_best, 0.97);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sim/engine/belief");
    TCase *tc = tcase_create("belief");
    tcase_add_test(tc, plans_within_two_percent_of_the_fastest_count_as_fastest);
    tcase_add_test(tc, of_equally_likely_plans_the_one_with_the_lower_mean_is_chosen);
    tcase_add_test(tc, the_probability_of_being_faster_is_that_of_a_normal_difference);
    tcase_add_test(tc, chances_are_those_of_a_normal_difference);
    tcase_add_test(tc, a_measured_run_moves_the_other_by_their_covariance);
    tcase_add_test(tc, only_a_plan_that_is_surely_faster_replaces_the_present_one);
    tcase_add_test(tc, a_run_gains_what_it_tells_about_the_fastest);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
