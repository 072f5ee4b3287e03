/* not under asan: other tests also score the shipped rows. */
#include "tests/testing.h"

#include "calibration/fit/diagnosis.h"
#include "calibration/score/choice.h"
#include "calibration/score/needed_widths.h"
#include "calibration/score/preference.h"
#include "sim/engine/interval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double TINY = 1e-9;

/* --- the shipped rows, scored once ----------------------------------------------------------- */

static struct arena arena;
static struct run_systems *systems;
static struct run_rows rows;
static struct run_case *cases;
static struct run_prediction *predictions;
static struct scores scores;

static void load(void)
{
    struct err err = { 0 };
    ck_assert_msg(runs_load("calibration/measured/runs.csv", &arena, &rows, &err), "%s", err.msg);
    systems = run_systems_new(NULL, NULL, &err);
    ck_assert_ptr_nonnull(systems);
    cases = ARENA_ARRAY(&arena, struct run_case, (size_t)rows.count);
    predictions = ARENA_ARRAY(&arena, struct run_prediction, (size_t)rows.count);
    for (int i = 0; i < rows.count; i++)
        ck_assert_msg(run_convert(systems, &rows.at[i], &cases[i], &err), "%s", err.msg);
    runs_predict(cases, rows.count, 2, predictions);
    scores = runs_score(cases, predictions, rows.count, &arena);
}

static void release(void)
{
    run_systems_free(systems);
    systems = NULL;
    arena_release(&arena);
}

START_TEST(nine_in_ten_measured_times_lie_in_their_intervals)
{
    double coverage = scores.all.not_fitted.coverage;
    for (int i = 0; i < scores.num_sources; i++) {
        const struct score *score = &scores.sources[i].kind[SCORE_TIME].not_fitted;
        if (score->groups > 0)
            printf("  coverage of %-18s %5.1f %% of %d\n", scores.sources[i].source,
                   100 * score->coverage, score->groups);
    }
    printf("  coverage of all                %5.1f %% of %d\n", 100 * coverage,
           scores.all.not_fitted.groups);
    ck_assert_double_ge(coverage, 0.85);
    ck_assert_double_le(coverage, 0.95);
}
END_TEST

START_TEST(no_stacks_interval_is_more_than_1_25_times_too_narrow)
{
    struct interval_needs needs = runs_need(cases, predictions, &scores, &arena);
    for (int i = 0; i < needs.count; i++)
        if (needs.at[i].is_of_stack && isfinite(needs.at[i].needed) &&
            strcmp(needs.at[i].name, new_sources) != 0)
            ck_assert_msg(needs.at[i].short_by < 1.25,
                          "%s: its interval is too narrow by a factor of %.3f", needs.at[i].name,
                          needs.at[i].short_by);
}
END_TEST

/* The goals are 0.85 for tau (Kendall's rank correlation of predicted and measured times) and 0.9
 * for near_best (share of strata in which the plan predicted to be fastest is nearly the fastest).
 * near_best does not reach its goal yet, so the test requires 0.45. */
START_TEST(plans_on_one_node_are_ranked_nearly_as_measured)
{
    struct preferences all = runs_prefer(cases, predictions, &scores, &arena);
    ck_assert_int_ge(all.count, 1);
    for (int i = 0; i < all.count; i++) {
        const struct preference *of = &all.at[i];
        printf("  order of %-18s tau %.3f, best chosen in %.0f %% of %d strata\n", of->source,
               of->tau, 100 * of->near_best, of->strata);
        if (strcmp(of->source, "vtrain_single") != 0)
            continue;
        ck_assert_int_ge(of->strata, 100);
        ck_assert_double_ge(of->tau, 0.85);
        ck_assert_double_ge(of->near_best, 0.45);
    }
}
END_TEST

/* A Brier score of 0.25 or more is no better than a coin toss; it is allowed only for new
 * stacks. */
START_TEST(probabilities_of_chosen_plans_match_their_frequencies)
{
    struct choices all = runs_choose(cases, predictions, &scores, &arena);
    ck_assert_int_ge(all.count, 1);
    for (int i = 0; i < all.count; i++) {
        const struct choice *of = &all.at[i];
        printf("  plans of %-18s %.0f %% of %d strata within 2 %% of the best, Brier score %.2f\n",
               of->source, 100 * of->close, of->strata, of->brier);
        ck_assert_double_ge(of->mean, 0);
        ck_assert_double_ge(of->worst, of->mean);
        if (of->strata >= 30) {
            ck_assert_double_eq_tol(of->stated, of->was, 0.15);
            ck_assert_double_le(of->brier, 0.3);
        }
    }
}
END_TEST

/* Finds the row that differs only in its number of microbatches, which is `times` as large. */
static const struct run_row *with_microbatches(const struct run_row *of, double times)
{
    for (int i = 0; i < rows.count; i++) {
        const struct run_row *row = &rows.at[i];
        if (strcmp(row->source_key, of->source_key) == 0 && row->layers == of->layers &&
            row->hidden == of->hidden && row->tp == of->tp && row->pp == of->pp &&
            row->dp == of->dp && row->mbs == of->mbs && row->gbs_seqs == times * of->gbs_seqs)
            return row;
    }
    return NULL;
}

/* Measured runs never repeat to the microsecond. The times of vTrain's file do, so they must be
 * rounded sums (measured/README.md). */
START_TEST(vtrain_times_are_linear_in_the_number_of_microbatches)
{
    int lines = 0;
    for (int i = 0; i < rows.count; i++) {
        const struct run_row *one = &rows.at[i];
        if (strcmp(one->source_key, "vtrain_single") != 0)
            continue;
        const struct run_row *two = with_microbatches(one, 2);
        const struct run_row *four = with_microbatches(one, 4);
        if (!two || !four)
            continue;
        double rise_s = two->measured_iter_s - one->measured_iter_s;
        ck_assert_double_eq_tol(four->measured_iter_s, two->measured_iter_s + 2 * rise_s, 2.5e-6);
        lines++;
    }
    ck_assert_int_eq(lines, 432);
}
END_TEST

/* Tests only one row in twenty, because a diagnosis predicts a row once per constant. */
START_TEST(a_diagnosis_leaves_the_systems_unchanged)
{
    int count = 0;
    for (int i = 0; i < rows.count; i++)
        if (!is_spared(i, 20)) {
            predictions[count] = predictions[i];
            cases[count++] = cases[i];
        }
    struct scores of_some = runs_score(cases, predictions, count, &arena);
    double before = predictions[of_some.worst[0]].step_s;
    struct diagnoses why = runs_diagnose(cases, predictions, &of_some, 2, &arena);
    ck_assert_int_ge(why.num_sources, 5);
    ck_assert_int_eq(why.num_rows, NUM_DIAGNOSED_ROWS);
    runs_predict(cases, count, 2, predictions);
    ck_assert_double_eq(predictions[of_some.worst[0]].step_s, before);
}
END_TEST

/* The measured times of one source (published set of runs) are replaced by predictions; then one
 * constant is changed, and the diagnosis must name it. */
START_TEST(a_diagnosis_finds_a_changed_constant)
{
    int own = 0;
    for (int i = 0; i < rows.count; i++)
        if (!*cases[i].skip && strcmp(rows.at[i].source_key, "vtrain_single") == 0 &&
            !is_spared(i, 10)) {
            rows.at[i].measured_iter_s = predictions[i].step_s;
            cases[own++] = cases[i];
        }
    ck_assert_int_gt(own, 0);
    double issue_s = cases[0].system->stack.host.issue_s;
    for (int i = 0; i < own; i++) /* the systems differ in GPUs but have the same stack */
        cases[i].system->stack.host.issue_s = 0.8 * issue_s;
    runs_predict(cases, own, 2, predictions);
    struct scores of_own = runs_score(cases, predictions, own, &arena);
    struct diagnoses why = runs_diagnose(cases, predictions, &of_own, 2, &arena);
    const struct suspect *first = &why.sources[0].suspects[0];
    ck_assert_str_eq(first->constant, "issue");
    ck_assert_double_eq_tol(first->change, log(1 / 0.8), 0.03);
    ck_assert_double_lt(first->left, 0.1 * why.sources[0].mean);
}
END_TEST

/* --- hand calculations ----------------------------------------------------------------------- */

START_TEST(tau_is_1_for_equal_and_minus_1_for_reversed_order)
{
    static const double up[] = { 1, 2, 3, 4 }, also_up[] = { 10, 20, 25, 70 };
    static const double down[] = { 4, 3, 2, 1 };
    ck_assert_double_eq(kendall_tau(up, also_up, 4), 1);
    ck_assert_double_eq(kendall_tau(up, down, 4), -1);
}
END_TEST

START_TEST(one_swapped_pair_of_six_lowers_tau_by_a_third)
{
    static const double x[] = { 1, 2, 3, 4 }, y[] = { 1, 3, 2, 4 };
    ck_assert_double_eq_tol(kendall_tau(x, y, 4), 2.0 / 3, TINY);
}
END_TEST

START_TEST(a_common_error_is_explained_despite_one_outlier)
{
    /* A change x of the constant makes the errors error + slope x. The sum of their absolute values
     * has corners where one of them is 0: at x = -0.2 (three times) and at x = 2. Its minimum is at
     * their weighted median, -0.2. */
    static const double errors[] = { 0.1, 0.1, 0.1, -1 }, slopes[] = { 0.5, 0.5, 0.5, 0.5 };
    int order[4];
    ck_assert_double_eq_tol(explain_errors(errors, slopes, 4, 1, order), -0.2, TINY);
}
END_TEST

START_TEST(an_explanation_stays_within_its_limit)
{
    static const double errors[] = { 1 }, slopes[] = { -0.1 };
    int order[1];
    ck_assert_double_eq(explain_errors(errors, slopes, 1, 0.5, order), 0.5);
}
END_TEST

START_TEST(a_constant_without_effect_on_a_row_explains_nothing)
{
    static const double errors[] = { 1, 2 }, slopes[] = { 0, 0 };
    int order[2];
    ck_assert_double_eq(explain_errors(errors, slopes, 2, 0.5, order), 0);
}
END_TEST

/* There are 16 rows, whose errors depend on tp and on no other column. */
START_TEST(errors_are_attributed_to_the_column_that_causes_them)
{
    struct run_row made[16];
    const struct run_row *of[16];
    double errors[16];
    for (int i = 0; i < 16; i++) {
        made[i] = (struct run_row){ .gpu = "",
                                    .software = "",
                                    .precision = "",
                                    .recompute = "",
                                    .schedule = "",
                                    .model_name = "",
                                    .reduce_dtype = "",
                                    .param_dtype = "",
                                    .tp = i % 2 ? 4 : 1,
                                    .mbs = i < 8 ? 1 : 2,
                                    .layers = i };
        errors[i] = i % 2 ? 0.2 : -0.1;
        of[i] = &made[i];
    }
    struct traits traits = traits_find(of, errors, 16);
    ck_assert_int_eq(traits.count, 1);
    ck_assert_str_eq(traits.column[0], "tp");
    ck_assert_double_eq_tol(traits.explained, 1, TINY);
    ck_assert_int_eq(traits_find(of, errors, FEWEST_TRAIT_ROWS - 1).count, 0);
}
END_TEST

static const struct model model; /* without experts */
static const struct time_parts half_data = { .compute_s = 3, .data_comm_s = 3 };

static struct system made_system(bool measured, double of_profile, double of_stack)
{
    struct system system = { 0 };
    system.profile.measured = measured;
    system.profile.error_log = of_profile;
    system.stack.errors.log = of_stack;
    return system;
}

START_TEST(a_measured_stack_sets_the_interval_on_a_measured_profile)
{
    struct system system = made_system(true, 0.2, 0.1);
    ck_assert_double_eq(interval_half_width(&system, &model, 1, &half_data), 0.1);
}
END_TEST

START_TEST(a_stack_without_runs_has_the_interval_of_its_profile)
{
    struct system system = made_system(true, 0.2, 0);
    ck_assert_double_eq(interval_half_width(&system, &model, 1, &half_data), 0.2);
}
END_TEST

START_TEST(on_an_unmeasured_profile_the_wider_interval_is_used)
{
    struct system system = made_system(false, 0.2, 0.1);
    ck_assert_double_eq(interval_half_width(&system, &model, 1, &half_data), 0.2);
    system.stack.errors.log = 0.3;
    ck_assert_double_eq(interval_half_width(&system, &model, 1, &half_data), 0.3);
}
END_TEST

/* The profile is like one after a calibration whose held-out steps had an error of 30 %. */
START_TEST(a_disturbed_profiles_interval_is_at_least_its_held_out_error)
{
    struct system system = made_system(true, 0.3, 0.1);
    system.profile.is_disturbed = true;
    ck_assert_double_eq(interval_half_width(&system, &model, 1, &half_data), 0.3);
    system.stack.errors.log = 0.4;
    ck_assert_double_eq(interval_half_width(&system, &model, 1, &half_data), 0.4);
}
END_TEST

START_TEST(the_parts_errors_add_in_squares_weighted_by_share)
{
    struct system system = made_system(true, 0.2, 0.1);
    system.stack.errors.widths =
        (struct error_widths){ .common = 0.03, .compute = 0.08, .data = 0.24 };
    /* compute and data each take half of the step, so their widths are 0.08 / 2 and 0.24 / 2:
     * sqrt(0.03^2 + 0.04^2 + 0.12^2) = 0.13 */
    ck_assert_double_eq_tol(interval_half_width(&system, &model, 1, &half_data), 0.13, TINY);
}
END_TEST

/* A slice is the hidden size per tensor rank. If it is half or twice the usual 2048, the interval's
 * half width 0.12 grows by 0.05 in squares: 0.13^2 = 0.12^2 + 0.05^2. */
START_TEST(an_unmeasured_stack_is_less_certain_far_from_the_usual_slice)
{
    struct system system = made_system(true, 0.2, 0.12);
    struct model wide = { .hidden = 4096 };
    system.stack.errors.slice = 0.05 / log(2);
    system.stack.errors.usual_slice = 2048;
    ck_assert_double_eq_tol(interval_half_width(&system, &wide, 1, &half_data), 0.13, TINY);
    ck_assert_double_eq_tol(interval_half_width(&system, &wide, 2, &half_data), 0.12, TINY);
    ck_assert_double_eq_tol(interval_half_width(&system, &wide, 4, &half_data), 0.13, TINY);
}
END_TEST

START_TEST(the_parts_of_a_step_have_shares_that_add_up_to_1)
{
    struct time_parts parts;
    for (int i = 0; i < num_time_parts; i++)
        *(double *)(void *)((char *)&parts + time_part_table[i].offset) = i + 1;
    parts.bubble_s = -1e-9; /* rounding may produce a slightly negative time */
    double shares[NUM_ERROR_PARTS], sum = 0;
    interval_shares(&parts, shares);
    for (int i = 1; i < NUM_ERROR_PARTS; i++) {
        sum += shares[i];
        ck_assert_double_ge(shares[i], 0);
    }
    ck_assert_double_eq(shares[0], 1);
    ck_assert_double_eq_tol(sum, 1, TINY);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("honesty");
    TCase *shipped = tcase_create("shipped");
    tcase_add_unchecked_fixture(shipped, load, release);
    tcase_add_test(shipped, nine_in_ten_measured_times_lie_in_their_intervals);
    tcase_add_test(shipped, no_stacks_interval_is_more_than_1_25_times_too_narrow);
    tcase_add_test(shipped, plans_on_one_node_are_ranked_nearly_as_measured);
    tcase_add_test(shipped, probabilities_of_chosen_plans_match_their_frequencies);
    tcase_add_test(shipped, vtrain_times_are_linear_in_the_number_of_microbatches);
    tcase_add_test(shipped, a_diagnosis_leaves_the_systems_unchanged);
    tcase_add_test(shipped, a_diagnosis_finds_a_changed_constant);
    suite_add_tcase(s, shipped);
    TCase *hand = tcase_create("by hand");
    tcase_add_test(hand, tau_is_1_for_equal_and_minus_1_for_reversed_order);
    tcase_add_test(hand, one_swapped_pair_of_six_lowers_tau_by_a_third);
    tcase_add_test(hand, a_common_error_is_explained_despite_one_outlier);
    tcase_add_test(hand, an_explanation_stays_within_its_limit);
    tcase_add_test(hand, a_constant_without_effect_on_a_row_explains_nothing);
    tcase_add_test(hand, errors_are_attributed_to_the_column_that_causes_them);
    tcase_add_test(hand, a_measured_stack_sets_the_interval_on_a_measured_profile);
    tcase_add_test(hand, a_stack_without_runs_has_the_interval_of_its_profile);
    tcase_add_test(hand, on_an_unmeasured_profile_the_wider_interval_is_used);
    tcase_add_test(hand, a_disturbed_profiles_interval_is_at_least_its_held_out_error);
    tcase_add_test(hand, the_parts_errors_add_in_squares_weighted_by_share);
    tcase_add_test(hand, an_unmeasured_stack_is_less_certain_far_from_the_usual_slice);
    tcase_add_test(hand, the_parts_of_a_step_have_shares_that_add_up_to_1);
    suite_add_tcase(s, hand);
    return s;
}

TEST_MAIN(suite)
