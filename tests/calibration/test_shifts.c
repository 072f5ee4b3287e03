#include "tests/testing.h"

#include "calibration/fit/source_shifts.h"
#include "calibration/fit/unseen.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A source whose rows all have the same error, each with its own interval width. */
static struct source_shift made(const char *source, enum tier tier, double need)
{
    struct source_shift shift = { .tier = (int)tier, .groups = 10 };
    snprintf(shift.source, sizeof shift.source, "%s", source);
    for (int k = 0; k < NUM_NEEDS; k++)
        shift.needs[k] = need;
    return shift;
}

/* Calculated by hand. The prior counts as two sources of variance (0.2 / 1.645)^2 = 0.01478. With
 * the sources it gives a t distribution with 4 degrees of freedom, or 3 if source a is left out,
 * whose 95 % quantiles are 2.132 and 2.353. */
START_TEST(a_tiers_width_is_that_of_a_t_distribution_over_sources)
{
    struct source_shift gpus[] = { made("a", TIER_NEW_GPU, 0), made("b", TIER_NEW_GPU, 0) };
    struct source_shifts two = { .at = gpus, .count = 2 };
    gpus[0].bias = -0.3;
    gpus[1].bias = 0.1;
    double scale = sqrt((2 * 0.01478 + 0.09 + 0.01) / 4);
    ck_assert_double_eq_tol(shift_width(&two, TIER_NEW_GPU, NULL), 2.132 * scale, 0.003);
    scale = sqrt((2 * 0.01478 + 0.01) / 3);
    ck_assert_double_eq_tol(shift_width(&two, TIER_NEW_GPU, "a"), 2.353 * scale, 0.003);
    ck_assert_double_eq(shift_width(&two, TIER_NEW_STACK, NULL), 0);
}
END_TEST

/* A source counts with its bias, or with the shift that its rows need / 1.645 if that is larger.
 * Source a counts with 0.5 / 1.645 = 0.304 (square 0.0924) instead of its bias 0.1. Source b counts
 * with its bias 0.2 (square 0.04), because 0.1 / 1.645 is smaller. */
START_TEST(rows_that_scatter_more_than_others_widen_their_tier)
{
    struct source_shift gpus[] = { made("a", TIER_NEW_GPU, 0.5), made("b", TIER_NEW_GPU, 0.1) };
    struct source_shifts two = { .at = gpus, .count = 2 };
    gpus[0].bias = 0.1;
    gpus[1].bias = -0.2;
    double scale = sqrt((2 * 0.01478 + 0.0924 + 0.04) / 4);
    ck_assert_double_eq_tol(shift_width(&two, TIER_NEW_GPU, NULL), 2.132 * scale, 0.003);
}
END_TEST

/* Calculated by hand. A slice is the hidden size per tensor rank, and a slope is the change of a
 * source's error with the logarithm of the slice. The slopes 0.1 and -0.2 have a mean square of
 * 0.025. The 95 % quantile of t with 2 degrees of freedom is 2.92; the program's series expansion
 * gives it within 4 %. Sources of a seen stack do not count. */
START_TEST(the_trend_with_slices_is_that_of_the_sources_slopes)
{
    struct source_shift stacks[] = { made("a", TIER_NEW_STACK, 0), made("b", TIER_NEW_GPU, 0),
                                     made("c", TIER_SEEN, 0) };
    struct source_shifts three = { .at = stacks, .count = 3 };
    stacks[0].slope = 0.1;
    stacks[0].slice = 1000;
    stacks[1].slope = -0.2;
    stacks[1].slice = 4000;
    stacks[2].slope = 5;
    stacks[2].slice = 1;
    struct slice_trend trend = slice_trend_find(&three, NULL);
    ck_assert_double_eq_tol(trend.width, 2.92 * sqrt(0.025), 0.04 * trend.width);
    ck_assert_double_eq_tol(trend.usual, 2000, 1e-6);
    ck_assert_double_eq_tol(slice_width(&trend, TIER_NEW_STACK, log(1000)), trend.width * log(2),
                            1e-9);
    ck_assert_double_eq_tol(slice_width(&trend, TIER_NEW_STACK, log(4000)), trend.width * log(2),
                            1e-9);
    ck_assert_double_eq(slice_width(&trend, TIER_NEW_GPU, log(4000)), 0);
    ck_assert_double_eq(slice_width(&trend, TIER_SEEN, log(4000)), 0);
    ck_assert_double_eq(slice_trend_find(&three, "a").width, 0);
}
END_TEST

/* The errors are -0.1, 0, 0.1 and 0.2 at slices of 1, 2, 4 and 8 thousand, so the slope is 0.1 /
 * ln(2). If all slices are equal, the slope is unknown and counts as 0. */
START_TEST(a_sources_slope_is_the_regression_of_its_errors_on_its_slices)
{
    struct left_out_row rows[4];
    for (int i = 0; i < 4; i++)
        rows[i] = (struct left_out_row){ .id = "row",
                                         .tier = TIER_NEW_STACK,
                                         .error = 0.1 * (i - 1),
                                         .slice = log(1000 << i),
                                         .is_dense = true };
    struct left_out source = { .source = "made", .rows = rows, .num_rows = 4 };
    struct source_shifts found;
    source_shifts_find(&source, 1, NULL, &found);
    ck_assert_double_eq_tol(found.at[0].slope, 0.1 / log(2), 1e-3);
    ck_assert_double_eq_tol(found.at[0].slice, 2828, 1);
    source_shifts_release(&found);
    for (int i = 0; i < 4; i++)
        rows[i].slice = log(1000);
    source_shifts_find(&source, 1, NULL, &found);
    ck_assert_double_eq(found.at[0].slope, 0);
    source_shifts_release(&found);
}
END_TEST

/* The trend's half width and the shift add in squares to the error. The row's error is sqrt(0.3^2 +
 * width^2), and its slice is e times the usual one, for which the trend explains `width`. So a
 * shift of 0.3 remains. */
START_TEST(a_row_far_from_the_usual_slice_needs_less_shift)
{
    struct source_shift others[] = { made("a", TIER_NEW_STACK, 0), made("b", TIER_NEW_STACK, 0) };
    struct source_shifts known = { .at = others, .count = 2 };
    others[0].slope = others[1].slope = 0.1;
    others[0].slice = others[1].slice = 1000;
    double width = slice_trend_find(&known, NULL).width;
    double error = hypot(0.3, width);
    struct left_out_row rows[] = {
        { "a", TIER_NEW_STACK, error, 0, log(1000) + 1, true },
        { "b", TIER_NEW_STACK, error, 0, log(1000), true },
    };
    struct left_out source = { .source = "made", .rows = rows, .num_rows = 2 };
    struct source_shifts found;
    source_shifts_find(&source, 1, &known, &found);
    ck_assert_double_eq_tol(found.at[0].needs[0], 0.3, 1e-3);
    ck_assert_double_eq_tol(found.at[0].needs[NUM_NEEDS - 1], error, 1e-3);
    source_shifts_release(&found);
}
END_TEST

START_TEST(a_measured_stack_and_gpu_have_no_shift)
{
    struct source_shift seen = made("one", TIER_SEEN, 0.3);
    struct source_shifts one = { .at = &seen, .count = 1 };
    ck_assert_double_eq(shift_width(&one, TIER_SEEN, NULL), 0);
}
END_TEST

START_TEST(a_wider_shift_covers_no_fewer_rows)
{
    struct source_shift of = made("one", TIER_NEW_GPU, 0);
    double before = 0;
    for (int k = 0; k < NUM_NEEDS; k++)
        of.needs[k] = 0.02 * k;
    for (double width = 0; width < 0.5; width += 0.003) {
        double covered = shift_covers(&of, width);
        ck_assert_double_ge(covered, before);
        before = covered;
    }
    ck_assert_double_eq(before, 1);
    ck_assert_double_eq_tol(shift_covers(&of, 0.2), 0.5, 1e-9);
}
END_TEST

/* A row is covered if error^2 <= width^2 + shift^2; here 5^2 = 3^2 + 4^2. */
START_TEST(the_shift_that_covers_a_row_is_the_rest_of_its_squared_error)
{
    struct left_out_row rows[] = {
        { "a", TIER_NEW_STACK, -0.5, 0.3, 0, true },
        { "b", TIER_NEW_STACK, 0.2, 0.3, 0, true },
        { "c", TIER_NEW_STACK, 0.9, 0.1, 0, false },
    };
    struct left_out source = { .source = "made", .rows = rows, .num_rows = 3 };
    struct source_shifts found;
    source_shifts_find(&source, 1, NULL, &found);
    ck_assert_int_eq(found.count, 1);
    ck_assert_int_eq(found.at[0].groups, 2);
    ck_assert_double_eq(found.at[0].needs[0], 0);
    ck_assert_double_eq_tol(found.at[0].needs[NUM_NEEDS - 1], 0.4, 1e-9);
    source_shifts_release(&found);
}
END_TEST

/* A constant of an unseen stack is the median over the stacks whose rows determine it. A stack does
 * not count if its fit leaves the constant uncertain by a factor of two. With only one such stack
 * there is no median. */
START_TEST(an_unseen_stack_has_the_median_constants_of_the_others)
{
    static const char *const files[] = { "stacks/a", "stacks/b", "stacks/c", "stacks/new" };
    static const double found[] = { 0.8, 0.9, 1.1, 7 };
    struct fit_constant constants[4];
    struct fit_value values[4];
    struct err err = { 0 };
    for (int i = 0; i < 4; i++) {
        ck_assert(constant_find(files[i], "product_efficiency", &constants[i].constant, &err));
        values[i] =
            (struct fit_value){ .of = &constants[i], .value = found[i], .is_informed = i < 3 };
    }
    struct fit_job job = { .num_constants = 4 };
    struct fit_result result = { .job = &job, .values = values, .num_values = 4 };
    struct unseen middle;
    ck_assert(unseen_find(&constants[3].constant, &result, 1, &middle));
    ck_assert_double_eq(middle.value, 0.9);
    ck_assert_int_eq(middle.stacks, 3);
    ck_assert_double_gt(middle.spread, 0.1);
    values[0].standard_error = log(2);
    ck_assert(unseen_find(&constants[3].constant, &result, 1, &middle));
    ck_assert_int_eq(middle.stacks, 2);
    ck_assert_double_eq_tol(middle.value, sqrt(0.9 * 1.1),
                            5e-4); /* shipped values are rounded to three digits */
    values[1].is_informed = false;
    ck_assert(!unseen_find(&constants[3].constant, &result, 1, &middle));
}
END_TEST

/* --- the shipped runs ------------------------------------------------------------------------- */

/* Tests the source whose refit takes the least time; `make campaign` tests all sources. */
START_TEST(shipped_left_out_errors_equal_refits_without_the_source)
{
    static const char *const names[] = { "dgxc_gb200",    "internevo",       "torchao_float8",
                                         "megatron2021",  "korthikanti2022", "zerobubble2023",
                                         "llmfoundry",    "bloom_prequel",   "nemo2407_h100",
                                         "vtrain_single", "dgxc_h100" };
    if (is_spared(_i, 11))
        return;
    struct fit_table table;
    struct left_out source;
    struct source_shifts found, shipped;
    struct err err = { 0 };
    ck_assert_msg(fit_table_load(NULL, &table, &err), "%s", err.msg);
    ck_assert_msg(leave_out(&table, names[_i], 2, &source, &err), "%s", err.msg);
    source_shifts_find(&source, 1, NULL, &found);
    ck_assert_msg(source_shifts_load(&shipped, &err), "%s", err.msg);
    for (int i = 0; i < found.count; i++)
        for (int k = 0; k < shipped.count; k++)
            if (strcmp(found.at[i].source, shipped.at[k].source) == 0 &&
                found.at[i].tier == shipped.at[k].tier) {
                ck_assert_double_eq_tol(found.at[i].median, shipped.at[k].median, 1e-9);
                ck_assert_double_eq_tol(found.at[i].bias, shipped.at[k].bias, 1e-9);
                ck_assert_double_eq_tol(found.at[i].scatter, shipped.at[k].scatter, 1e-9);
                ck_assert_double_eq_tol(found.at[i].slope, shipped.at[k].slope, 1e-9);
            }
    source_shifts_release(&found);
    source_shifts_release(&shipped);
    left_out_release(&source);
    fit_table_release(&table);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("calibration/fit/shifts");
    TCase *laws = tcase_create("laws");
    tcase_add_test(laws, a_tiers_width_is_that_of_a_t_distribution_over_sources);
    tcase_add_test(laws, rows_that_scatter_more_than_others_widen_their_tier);
    tcase_add_test(laws, the_trend_with_slices_is_that_of_the_sources_slopes);
    tcase_add_test(laws, a_sources_slope_is_the_regression_of_its_errors_on_its_slices);
    tcase_add_test(laws, a_row_far_from_the_usual_slice_needs_less_shift);
    tcase_add_test(laws, a_measured_stack_and_gpu_have_no_shift);
    tcase_add_test(laws, a_wider_shift_covers_no_fewer_rows);
    tcase_add_test(laws, the_shift_that_covers_a_row_is_the_rest_of_its_squared_error);
    tcase_add_test(laws, an_unseen_stack_has_the_median_constants_of_the_others);
    suite_add_tcase(s, laws);
    TCase *runs = tcase_create("runs");
    tcase_set_timeout(runs, 120);
    tcase_add_loop_test(runs, shipped_left_out_errors_equal_refits_without_the_source, 0, 11);
    suite_add_tcase(s, runs);
    return s;
}

TEST_MAIN(suite)
