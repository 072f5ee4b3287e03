#include "tests/testing.h"

#include "sim/engine/chances.h"

#include <math.h>

enum { PLANS = 4 };
static struct system made;
static struct time_parts parts[PLANS];
static struct rival_time rivals[PLANS];
static double chance[PLANS];

/* Plans that only compute, for 1 s each, with errors of 10 %. */
static void make(void)
{
    made =
        (struct system){ .stack.errors.widths = { .common = 0.02, .compute = 0.1, .data = 0.3 } };
    for (int i = 0; i < PLANS; i++) {
        parts[i] = (struct time_parts){ .compute_s = 1 };
        rivals[i] = (struct rival_time){ 1, &parts[i] };
    }
}

START_TEST(probabilities_add_up_to_one)
{
    double sum = 0;
    rivals[1].step_s = 1.03;
    chances_of_best(&made, rivals, PLANS, chance);
    for (int i = 0; i < PLANS; i++)
        sum += chance[i];
    ck_assert_double_eq_tol(sum, 1, 1e-9);
}
END_TEST

/* Of 1000 draws each of four plans wins 250 +- 14; five deviations are allowed. */
START_TEST(equal_plans_have_equal_probabilities)
{
    chances_of_best(&made, rivals, PLANS, chance);
    for (int i = 0; i < PLANS; i++)
        ck_assert_double_eq_tol(chance[i], 0.25, 0.07);
}
END_TEST

START_TEST(slower_plans_have_smaller_probabilities)
{
    double before = 1;
    for (double slower = 1; slower < 1.5; slower += 0.02) {
        rivals[0].step_s = slower;
        chances_of_best(&made, rivals, PLANS, chance);
        ck_assert_double_le(chance[0], before);
        before = chance[0];
    }
    ck_assert_double_eq(before, 0);
}
END_TEST

/* An error of an unmeasured stack shifts all plans with the same compute alike, so their order
 * stays equally certain. The order relative to a plan that has only data traffic becomes less
 * certain. */
START_TEST(a_shift_common_to_all_plans_changes_no_order)
{
    rivals[0].step_s = 0.95;
    chances_of_best(&made, rivals, PLANS, chance);
    double before = chance[0];
    made.stack.errors.source = 0.3;
    chances_of_best(&made, rivals, PLANS, chance);
    ck_assert_double_eq(chance[0], before);
    parts[1] = (struct time_parts){ .data_comm_s = 1 };
    made.stack.errors.source = 0;
    chances_of_best(&made, rivals, 2, chance);
    before = chance[0];
    made.stack.errors.source = 0.3;
    chances_of_best(&made, rivals, 2, chance);
    ck_assert_double_lt(chance[0], before);
}
END_TEST

START_TEST(a_single_plan_has_probability_one)
{
    chances_of_best(&made, rivals, 1, chance);
    ck_assert_double_eq(chance[0], 1);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sim/engine/chances");
    TCase *laws = tcase_create("laws");
    tcase_add_checked_fixture(laws, make, NULL);
    tcase_add_test(laws, probabilities_add_up_to_one);
    tcase_add_test(laws, equal_plans_have_equal_probabilities);
    tcase_add_test(laws, slower_plans_have_smaller_probabilities);
    tcase_add_test(laws, a_shift_common_to_all_plans_changes_no_order);
    tcase_add_test(laws, a_single_plan_has_probability_one);
    suite_add_tcase(s, laws);
    return s;
}

TEST_MAIN(suite)
