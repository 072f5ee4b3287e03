#include "calibration/score.h"

#include "tests/plain_row.h"
#include "tests/testing.h"

#define FITTED "tests/fixtures/runs/fitted_stack.json"

START_TEST(hosts_of_a_rack_do_not_cut_it)
{
    struct run_row row = plain_row();
    row.gpu = "GB200";
    row.precision = "bf16";
    row.network = "NVL72";
    row.gpus_per_node = 4;
    ck_assert_int_eq(cluster_node_size(&convert_known(&row).system->cluster), 72);
    row.gpus_per_node = 72;
    ck_assert_int_eq(cluster_node_size(&convert_known(&row).system->cluster), 72);
    row.gpus_per_node = 8;
    ck_assert_int_eq(cluster_node_size(&convert_known(&row).system->cluster), 8);
}
END_TEST

START_TEST(nodes_are_as_small_as_the_row_says)
{
    struct run_row row = plain_row();
    row.gpus_per_node = 2;
    ck_assert_int_eq(cluster_node_size(&convert_known(&row).system->cluster), 2);
    row.gpus_per_node = 16;
    struct run_case out = convert_known(&row);
    ck_assert_int_eq(cluster_node_size(&out.system->cluster), 8);
    ck_assert(is_assumed(&out, "smaller than stated"));
}
END_TEST

START_TEST(rows_on_equal_systems_share_one)
{
    struct run_row row = plain_row();
    struct run_row other = plain_row();
    other.mbs = 4;
    struct run_case first = convert_known(&row);
    ck_assert_ptr_eq(first.system, convert_known(&other).system);
    other.n_gpus = 16;
    other.dp = 4;
    ck_assert_ptr_ne(first.system, convert_known(&other).system);
}
END_TEST

START_TEST(a_row_is_fitted_when_its_id_or_source_is_listed)
{
    struct err err = { 0 };
    run_systems_free(row_systems);
    row_systems = run_systems_new(NULL, FITTED, &err);
    struct run_row row = plain_row();
    ck_assert(!convert_known(&row).is_fitted);
    row.id = "again-2";
    ck_assert(convert_known(&row).is_fitted);
    row.id = "one";
    row.source_key = "other";
    ck_assert(convert_known(&row).is_fitted);
}
END_TEST

START_TEST(an_unknown_stack_that_was_asked_for_is_an_error)
{
    struct err err = { 0 };
    struct run_case out;
    run_systems_free(row_systems);
    row_systems = run_systems_new(NULL, "megatron-1999", &err);
    struct run_row row = plain_row();
    ck_assert(!run_convert(row_systems, &row, &out, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_str_eq(err.where, "megatron-1999");
}
END_TEST

START_TEST(a_cluster_that_was_asked_for_stands_in_for_words_nobody_knows)
{
    struct err err = { 0 };
    run_systems_free(row_systems);
    row_systems = run_systems_new("dgx-h100", NULL, &err);
    struct run_row row = plain_row();
    row.gpu = "abacus";
    ck_assert_str_eq(convert_known(&row).system->cluster.name, "dgx-h100");
}
END_TEST

START_TEST(predictions_are_the_same_alone_and_in_any_company)
{
    struct run_row rows[6];
    struct run_case all[6];
    struct run_prediction together[6];
    for (int i = 0; i < 6; i++) {
        rows[i] = plain_row();
        rows[i].mbs = i % 2 ? 4 : 2;
        rows[i].layers = i < 3 ? 24 : 48;
        rows[i].precision = i == 4 ? "fp8" : "fp16"; /* skipped */
        all[i] = convert(&rows[i]);
    }
    runs_predict(all, 6, 3, together);
    for (int i = 0; i < 6; i++) {
        struct run_prediction alone;
        runs_predict(&all[i], 1, 1, &alone);
        ck_assert_double_eq(together[i].step_s, alone.step_s);
        ck_assert_double_eq(together[i].memory_bytes, alone.memory_bytes);
        ck_assert((alone.step_s > 0) == (i != 4));
    }
}
END_TEST

START_TEST(a_run_that_exceeds_memory_is_predicted_all_the_same)
{
    struct run_row row = plain_row();
    row.hidden = 16384;
    row.layers = 96;
    struct run_case out = convert_known(&row);
    struct run_prediction prediction;
    runs_predict(&out, 1, 1, &prediction);
    ck_assert(!prediction.fits);
    ck_assert_double_gt(prediction.step_s, 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("convert: systems and predictions");
    TCase *rows = tcase_create("rows");
    tcase_add_checked_fixture(rows, row_systems_start, row_systems_end);
    tcase_add_test(rows, hosts_of_a_rack_do_not_cut_it);
    tcase_add_test(rows, nodes_are_as_small_as_the_row_says);
    tcase_add_test(rows, rows_on_equal_systems_share_one);
    tcase_add_test(rows, a_row_is_fitted_when_its_id_or_source_is_listed);
    tcase_add_test(rows, an_unknown_stack_that_was_asked_for_is_an_error);
    tcase_add_test(rows, a_cluster_that_was_asked_for_stands_in_for_words_nobody_knows);
    tcase_add_test(rows, predictions_are_the_same_alone_and_in_any_company);
    tcase_add_test(rows, a_run_that_exceeds_memory_is_predicted_all_the_same);
    suite_add_tcase(s, rows);
    return s;
}

TEST_MAIN(suite)
