#include "tests/testing.h"

#include "calibration/score/score.h"

#include <math.h>

static const double TINY = 1e-12;

/* A row with a measured time of 1 s, and its prediction, which the tests vary. */
struct made_row {
    const char *source, *group;
    double error; /* log(predicted / measured) */
    bool not_core, is_moe, is_fitted;
    const char *skip;
    double predicted_gb, measured_gb;
    double half_width; /* half width of its interval */
    enum tier tier;
};

#define ROW(its_source, its_group, its_error) \
    .source = its_source, .group = its_group, .error = its_error

enum { MOST_ROWS = 16 };
static struct run_row made[MOST_ROWS];
static struct run_case cases[MOST_ROWS];
static struct run_prediction predictions[MOST_ROWS];
static struct arena arena;

/* The systems belong to three tiers: nothing was measured; the stack (training software) is new;
 * stack and GPU were measured. */
static struct system *system_of(enum tier tier)
{
    static struct system systems[NUM_TIERS];
    systems[TIER_SEEN].profile.measured = systems[TIER_NEW_STACK].profile.measured = true;
    systems[TIER_SEEN].stack.num_fitted = 1;
    return &systems[tier];
}

static struct scores score_made(const struct made_row *rows, int count)
{
    for (int i = 0; i < count; i++) {
        made[i] =
            (struct run_row){ .id = "row",
                              .source_key = rows[i].source,
                              .config_group = rows[i].group,
                              .mem_unit = "",
                              .measured_iter_s = 1,
                              .measured_mem_gb = rows[i].measured_gb > 0 ? rows[i].measured_gb : -1,
                              .core = !rows[i].not_core };
        cases[i] = (struct run_case){ .row = &made[i],
                                      .skip = rows[i].skip ? rows[i].skip : "",
                                      .system = system_of(rows[i].tier),
                                      .is_moe = rows[i].is_moe,
                                      .is_fitted = rows[i].is_fitted };
        predictions[i] =
            (struct run_prediction){ .step_s = exp(rows[i].error),
                                     .step_low_s = exp(rows[i].error - rows[i].half_width),
                                     .step_high_s = exp(rows[i].error + rows[i].half_width),
                                     .memory_bytes = 1e9 * rows[i].predicted_gb };
    }
    return runs_score(cases, predictions, count, &arena);
}

static const struct score *time_score(const struct scores *scores, int source)
{
    return &scores->sources[source].kind[SCORE_DENSE].all;
}

static void release(void)
{
    arena_release(&arena);
}

START_TEST(median_and_quantiles_use_absolute_errors)
{
    /* The absolute errors are 0.1, 0.2, 0.3 and 0.4; the signed errors are -0.4, -0.2, 0.1 and 0.3.
     */
    double errors[] = { 0.1, -0.2, 0.3, -0.4 };
    struct score score = score_errors(errors, 4);
    ck_assert_int_eq(score.groups, 4);
    ck_assert_double_eq_tol(score.median, 0.25, TINY);
    ck_assert_double_eq_tol(score.mean, 0.25, TINY);
    /* the quantile 0.9 has rank 2.7 among the ranks 0 to 3 */
    ck_assert_double_eq_tol(score.p90, 0.37, TINY);
    ck_assert_double_eq_tol(score.worst, 0.4, TINY);
    ck_assert_double_eq_tol(score.bias, -0.05, TINY);
}
END_TEST

START_TEST(one_error_is_its_own_median_and_worst)
{
    double errors[] = { -0.5 };
    struct score score = score_errors(errors, 1);
    ck_assert_double_eq(score.median, 0.5);
    ck_assert_double_eq(score.p90, 0.5);
    ck_assert_double_eq(score.worst, 0.5);
    ck_assert_double_eq(score.bias, -0.5);
}
END_TEST

START_TEST(no_errors_have_no_median)
{
    struct score score = score_errors(NULL, 0);
    ck_assert_int_eq(score.groups, 0);
    ck_assert(isnan(score.median) && isnan(score.bias));
}
END_TEST

START_TEST(only_the_last_row_of_a_group_is_scored)
{
    static const struct made_row rows[] = { { ROW("a", "g", 0.9) },
                                            { ROW("a", "h", 0.3) },
                                            { ROW("a", "g", 0.1) } };
    struct scores scores = score_made(rows, LENGTH(rows));
    ck_assert_int_eq(scores.num_rows, 3);
    ck_assert_int_eq(scores.num_core_groups, 2);
    ck_assert_int_eq(scores.num_scored, 2);
    ck_assert_double_eq_tol(time_score(&scores, 0)->worst, 0.3, TINY);
    ck_assert_double_eq_tol(time_score(&scores, 0)->median, 0.2, TINY);
}
END_TEST

START_TEST(a_group_whose_last_row_is_skipped_is_not_scored)
{
    static const struct made_row rows[] = { { ROW("a", "g", 0.1) },
                                            { ROW("a", "g", 0), .skip = "for a reason" } };
    struct scores scores = score_made(rows, LENGTH(rows));
    ck_assert_int_eq(scores.num_core_groups, 1);
    ck_assert_int_eq(scores.num_scored, 0);
    ck_assert_int_eq(time_score(&scores, 0)->groups, 0);
}
END_TEST

START_TEST(equally_named_groups_of_two_sources_are_separate)
{
    static const struct made_row rows[] = { { ROW("a", "g", 0.1) }, { ROW("b", "g", 0.2) } };
    struct scores scores = score_made(rows, LENGTH(rows));
    ck_assert_int_eq(scores.num_core_groups, 2);
}
END_TEST

START_TEST(each_row_without_a_group_is_a_separate_group)
{
    static const struct made_row rows[] = { { ROW("a", "", 0.1) }, { ROW("a", "", 0.2) } };
    struct scores scores = score_made(rows, LENGTH(rows));
    ck_assert_int_eq(scores.num_scored, 2);
}
END_TEST

START_TEST(rows_that_are_not_core_are_not_scored)
{
    static const struct made_row rows[] = { { ROW("a", "g", 0.1) },
                                            { ROW("a", "g", 0.7), .not_core = true },
                                            { ROW("a", "h", 0.8), .not_core = true } };
    struct scores scores = score_made(rows, LENGTH(rows));
    ck_assert_int_eq(scores.num_core_groups, 1);
    ck_assert_double_eq_tol(time_score(&scores, 0)->worst, 0.1, TINY);
}
END_TEST

START_TEST(every_source_has_equal_weight_in_the_mean_of_medians)
{
    static const struct made_row rows[] = {
        { ROW("big", "1", 0.1) }, { ROW("big", "2", 0.1) },   { ROW("big", "3", -0.1) },
        { ROW("big", "4", 0.1) }, { ROW("small", "1", 0.5) }, { ROW("big", "5", 0.1) },
    };
    struct scores scores = score_made(rows, LENGTH(rows));
    ck_assert_int_eq(scores.num_sources, 2);
    ck_assert_str_eq(scores.sources[0].source, "big");
    ck_assert_int_eq(time_score(&scores, 0)->groups, 5);
    ck_assert_double_eq_tol(scores.mean_of_medians, 0.3, TINY);
}
END_TEST

START_TEST(mixtures_of_experts_are_excluded_from_the_dense_mean)
{
    static const struct made_row rows[] = { { ROW("a", "1", 0.1) },
                                            { ROW("a", "2", 0.9), .is_moe = true } };
    struct scores scores = score_made(rows, LENGTH(rows));
    ck_assert_int_eq(scores.sources[0].kind[SCORE_TIME].all.groups, 2);
    ck_assert_int_eq(scores.sources[0].kind[SCORE_DENSE].all.groups, 1);
    ck_assert_int_eq(scores.sources[0].kind[SCORE_MOE].all.groups, 1);
    ck_assert_double_eq_tol(scores.mean_of_medians, 0.1, TINY);
}
END_TEST

START_TEST(fitted_rows_are_scored_separately)
{
    static const struct made_row rows[] = { { ROW("a", "1", 0.1), .is_fitted = true },
                                            { ROW("a", "2", 0.4) },
                                            { ROW("a", "3", 0.6) } };
    struct scores scores = score_made(rows, LENGTH(rows));
    const struct split_score *split = &scores.sources[0].kind[SCORE_DENSE];
    ck_assert_int_eq(split->fitted.groups, 1);
    ck_assert_double_eq_tol(split->fitted.median, 0.1, TINY);
    ck_assert_int_eq(split->not_fitted.groups, 2);
    ck_assert_double_eq_tol(split->not_fitted.median, 0.5, TINY);
    ck_assert_double_eq_tol(split->all.median, 0.4, TINY);
}
END_TEST

START_TEST(a_time_is_covered_if_its_interval_contains_the_measured_time)
{
    static const struct made_row rows[] = { { ROW("a", "1", 0.1), .half_width = 0.15 },
                                            { ROW("a", "2", -0.1), .half_width = 0.15 },
                                            { ROW("a", "3", -0.1), .half_width = 0.05 },
                                            { ROW("b", "4", 0.1), .half_width = 0.15 } };
    struct scores scores = score_made(rows, LENGTH(rows));
    ck_assert_double_eq_tol(time_score(&scores, 0)->coverage, 2.0 / 3, TINY);
    ck_assert_double_eq(time_score(&scores, 1)->coverage, 1);
    ck_assert_double_eq_tol(scores.all.not_fitted.coverage, 0.75, TINY);
    ck_assert(isnan(scores.all.fitted.coverage));
}
END_TEST

START_TEST(each_tier_is_scored_separately)
{
    const struct made_row rows[] = {
        { ROW("a", "1", 0.1), .half_width = 0.2 },
        { ROW("b", "1", 0.3), .half_width = 0.2, .tier = TIER_NEW_STACK },
        { ROW("b", "2", 0.1), .half_width = 0.2, .tier = TIER_NEW_STACK },
        { ROW("c", "1", 0.1), .half_width = 0.2, .is_fitted = true },
    };
    struct scores scores = score_made(rows, 4);
    ck_assert_int_eq(scores.tiers[TIER_SEEN].groups, 1);
    ck_assert_double_eq(scores.tiers[TIER_SEEN].coverage, 1);
    ck_assert_int_eq(scores.tiers[TIER_NEW_STACK].groups, 2);
    ck_assert_double_eq(scores.tiers[TIER_NEW_STACK].coverage, 0.5);
    ck_assert_double_eq_tol(scores.tiers[TIER_NEW_STACK].median, 0.2, TINY);
    ck_assert_int_eq(scores.tiers[TIER_NEW_GPU].groups, 0);
}
END_TEST

START_TEST(only_rows_with_measured_memory_are_scored_for_memory)
{
    static const struct made_row rows[] = { { ROW("a", "1", 0.1), .predicted_gb = 20,
                                              .measured_gb = 10 },
                                            { ROW("a", "2", 0.1), .predicted_gb = 50 } };
    struct scores scores = score_made(rows, LENGTH(rows));
    const struct score *memory = &scores.sources[0].kind[SCORE_MEMORY].all;
    ck_assert_int_eq(memory->groups, 1);
    ck_assert_double_eq_tol(memory->bias, log(2), TINY);
    ck_assert(isnan(memory->coverage));
}
END_TEST

START_TEST(the_rows_with_the_largest_errors_are_listed_first)
{
    static const struct made_row rows[] = { { ROW("a", "1", 0.2) },
                                            { ROW("b", "2", -0.9) },
                                            { ROW("a", "3", 0.5) },
                                            { ROW("a", "4", -0.1) } };
    struct scores scores = score_made(rows, LENGTH(rows));
    static const int expected[] = { 1, 2, 0, 3 };
    for (int i = 0; i < LENGTH(expected); i++)
        ck_assert_int_eq(scores.worst[i], expected[i]);
}
END_TEST

START_TEST(without_scored_rows_there_is_no_mean)
{
    struct scores scores = score_made(NULL, 0);
    ck_assert_int_eq(scores.num_sources, 0);
    ck_assert(isnan(scores.mean_of_medians));
}
END_TEST

START_TEST(memory_is_in_decimal_gigabytes_unless_its_unit_is_stated)
{
    struct run_row row = { .measured_mem_gb = 40, .mem_unit = "" };
    ck_assert_double_eq(run_measured_bytes(&row), 40e9);
    row.mem_unit = "GiB";
    ck_assert_double_eq(run_measured_bytes(&row), 40 * 1073741824.0);
    row.measured_mem_gb = -1;
    ck_assert_double_eq(run_measured_bytes(&row), -1);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("score");
    TCase *protocol = tcase_create("protocol");
    tcase_add_checked_fixture(protocol, NULL, release);
    tcase_add_test(protocol, median_and_quantiles_use_absolute_errors);
    tcase_add_test(protocol, one_error_is_its_own_median_and_worst);
    tcase_add_test(protocol, no_errors_have_no_median);
    tcase_add_test(protocol, only_the_last_row_of_a_group_is_scored);
    tcase_add_test(protocol, a_group_whose_last_row_is_skipped_is_not_scored);
    tcase_add_test(protocol, equally_named_groups_of_two_sources_are_separate);
    tcase_add_test(protocol, each_row_without_a_group_is_a_separate_group);
    tcase_add_test(protocol, rows_that_are_not_core_are_not_scored);
    tcase_add_test(protocol, every_source_has_equal_weight_in_the_mean_of_medians);
    tcase_add_test(protocol, mixtures_of_experts_are_excluded_from_the_dense_mean);
    tcase_add_test(protocol, fitted_rows_are_scored_separately);
    tcase_add_test(protocol, a_time_is_covered_if_its_interval_contains_the_measured_time);
    tcase_add_test(protocol, each_tier_is_scored_separately);
    tcase_add_test(protocol, only_rows_with_measured_memory_are_scored_for_memory);
    tcase_add_test(protocol, the_rows_with_the_largest_errors_are_listed_first);
    tcase_add_test(protocol, without_scored_rows_there_is_no_mean);
    tcase_add_test(protocol, memory_is_in_decimal_gigabytes_unless_its_unit_is_stated);
    suite_add_tcase(s, protocol);
    return s;
}

TEST_MAIN(suite)
