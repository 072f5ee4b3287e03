#include "calibration/fit/fit.h"

#include "base/text.h"
#include "calibration/fit/fitted_file.h"
#include "tests/calibration/fit_tables.h"
#include "tests/check_ok.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

/* Runs one job of the table. */
static void run(const struct fit_table *table, int job, struct fit_result *result)
{
    struct err err = { 0 };
    check_ok(fit_run(table, &table->jobs[job], NULL, 0, 1, false, result, &err), &err);
}

static const struct fit_value *value_of(const struct fit_result *result, const char *key)
{
    for (int j = 0; j < result->num_values; j++)
        if (strcmp(result->values[j].of->constant.key, key) == 0)
            return &result->values[j];
    ck_abort_msg("no constant %s", key);
    return NULL;
}

static void must_find(const struct fit_result *result, const char *key, double expected)
{
    double found = value_of(result, key)->value;
    ck_assert_msg(fabs(found / expected - 1) < 0.01, "%s: found %g, not %g", key, found, expected);
}

/* --- known constants -------------------------------------------------------------------------- */

START_TEST(a_fit_recovers_known_constants_from_products)
{
    struct fit_table table;
    struct fit_result result;
    fit_measure_products(0.7, 300, 2e-6);
    fit_load_table(fit_products_job, &table);
    run(&table, 0, &result);
    must_find(&result, "gemm_efficiency", 0.7);
    must_find(&result, "gemm_half_k", 300);
    must_find(&result, "kernel", 2e-6);
    ck_assert_double_lt(result.sources[0].in_sample.worst, 0.005);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

START_TEST(a_fit_recovers_known_constants_from_collectives)
{
    static const char job[] =
        "{ \"name\": \"ring\", \"prior_weight\": 0.01, \"constants\": {"
        "  \"profiles/h100-80g-sxm\": { \"intra_bandwidth_factor\": { \"prior\": 1 },"
        "    \"intra_latency_factor\": { \"prior\": 1 } } },"
        "  \"rows\": [{ \"kind\": \"collectives\", \"data\": \"@/comm.csv\","
        "    \"cluster\": \"dgx-h100\" }] }";
    static const char *const rows[] = {
        "all_reduce,1024,1,8",     "all_reduce,65536,1,4",         "all_reduce,1048576,1,8",
        "all_gather,16777216,1,2", "reduce_scatter,268435456,1,8", "all_reduce,1073741824,1,8",
    };
    static const double values[] = { 0.8, 1.5 };
    struct fit_table table;
    struct fit_result result;
    fit_measure(job, "comm.csv", "op,bytes,nodes,gpus,time_us", rows, LENGTH(rows), 1e-6, values);
    fit_load_table(job, &table);
    run(&table, 0, &result);
    must_find(&result, "intra_bandwidth_factor", values[0]);
    must_find(&result, "intra_latency_factor", values[1]);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

START_TEST(a_fit_recovers_known_constants_from_kernels)
{
    static const char job[] =
        "{ \"name\": \"kernels\", \"prior_weight\": 0.01, \"constants\": {"
        "  \"profiles/h200-141g-sxm\": { \"memory_efficiency\": { \"prior\": 0.8 },"
        "    \"kernel\": { \"prior\": \"3 us\" },"
        "    \"attention.flash3.forward_efficiency\": { \"prior\": 0.5 },"
        "    \"attention.flash3.half_seq\": { \"prior\": 200 } } },"
        "  \"rows\": [{ \"kind\": \"ops\", \"data\": \"@/ops.csv\", \"cluster\": \"dgx-h200\" }] }";
    static const char *const rows[] = {
        "copy,fp32,1024,8192,0",
        "copy,fp32,268435456,2147483648,0",
        "layernorm_fwd,bf16,8192x4096,134217728,0",
        "attention_fwd,bf16,16x16x1024x128,268435456,68719476736",
        "attention_fwd,bf16,4x16x4096x128,268435456,274877906944",
        "attention_fwd,bf16,1x16x16384x128,268435456,1099511627776",
    };
    static const double values[] = { 0.9, 2e-6, 0.6, 400 };
    struct fit_table table;
    struct fit_result result;
    fit_measure(job, "ops.csv", "op,dtype,shape,bytes,flops,time_us", rows, LENGTH(rows), 1e-6,
                values);
    fit_load_table(job, &table);
    run(&table, 0, &result);
    for (int j = 0; j < result.num_values; j++)
        must_find(&result, result.values[j].of->constant.key, values[j]);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

static const char run_header[] =
    "id,source_key,model_name,gpu,network,software,recompute,precision,core,"
    "n_gpus,layers,hidden,heads,vocab,seq,gbs_seqs,mbs,dp,tp,pp,"
    "zero_stage,sp,flash_attn,measured_iter_s";
#define RUN(id, gpus, layers, hidden, gbs, mbs, dp, tp)                                       \
    id ",made-up,GPT,A100-80GB-SXM,single node,Megatron-LM 2021,none,fp16,1," gpus "," layers \
       "," hidden ",16,51200,1024," gbs "," mbs "," dp "," tp ",1,0,0,0"
static const char *const runs[] = {
    RUN("a", "1", "4", "1024", "4", "1", "1", "1"),
    RUN("b", "1", "8", "2048", "4", "2", "1", "1"),
    RUN("c", "8", "8", "4096", "8", "1", "1", "8"),
    RUN("d", "4", "8", "2048", "8", "1", "1", "4"),
    RUN("e", "8", "4", "1024", "64", "4", "8", "1"),
    RUN("f", "2", "12", "2048", "2", "1", "2", "1"),
};
static const char runs_job[] =
    "{ \"name\": \"runs\", \"prior_weight\": 0.005, \"constants\": {"
    "  \"profiles/a100-80g-sxm\": { \"gemm_efficiency\": { \"prior\": 0.8 },"
    "    \"memory_efficiency\": { \"prior\": 0.8 }, \"intra_bandwidth_factor\": { \"prior\": 1 } },"
    "  \"stacks/megatron-2021\": { \"step_overhead\": { \"prior\": \"1 ms\" } } },"
    "  \"rows\": [{ \"data\": \"@/runs.csv\", \"source\": \"made-up\" }] }";
static const double runs_values[] = { 0.7, 0.9, 0.6, 3e-3 };

START_TEST(a_fit_recovers_known_constants_from_runs)
{
    struct fit_table table;
    struct fit_result result;
    fit_measure(runs_job, "runs.csv", run_header, runs, LENGTH(runs), 1, runs_values);
    fit_load_table(runs_job, &table);
    run(&table, 0, &result);
    for (int j = 0; j < result.num_values; j++)
        must_find(&result, result.values[j].of->constant.key, runs_values[j]);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

/* --- priors and bounds ------------------------------------------------------------------------ */

START_TEST(a_constant_that_affects_no_row_keeps_its_prior)
{
    struct fit_table table;
    struct fit_result result;
    fit_measure_products(0.7, 300, 2e-6);
    fit_load_table(
        "{ \"name\": \"idle\", \"constants\": { \"profiles/a100-80g-sxm\": {"
        " \"gemm_efficiency\": { \"prior\": 0.8 },"
        " \"overlap_comm_slowdown\": { \"prior\": 1.3 } } }, \"rows\": [" FIT_PRODUCT_ROWS "] }",
        &table);
    run(&table, 0, &result);
    ck_assert_double_eq(value_of(&result, "overlap_comm_slowdown")->value, 1.3);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

START_TEST(a_strong_prior_outweighs_the_rows)
{
    struct fit_table table;
    struct fit_result result;
    fit_measure_products(0.7, 300, 2e-6);
    fit_load_table("{ \"name\": \"sure\", \"prior_weight\": 10000, \"constants\": {"
                   " \"profiles/a100-80g-sxm\": { \"gemm_efficiency\": { \"prior\": 0.8 } } },"
                   " \"rows\": [" FIT_PRODUCT_ROWS "] }",
                   &table);
    run(&table, 0, &result);
    ck_assert_double_eq(value_of(&result, "gemm_efficiency")->value, 0.8);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

START_TEST(a_fitted_constant_stays_in_its_bound_and_the_bound_is_reported)
{
    struct fit_table table;
    struct fit_result result;
    fit_measure_products(0.9, 200, 2e-6);
    fit_load_table("{ \"name\": \"low\", \"constants\": { \"profiles/a100-80g-sxm\": {"
                   " \"gemm_efficiency\": { \"prior\": 0.8, \"max\": 0.8345 } } },"
                   " \"rows\": [" FIT_PRODUCT_ROWS "] }",
                   &table);
    run(&table, 0, &result);
    const struct fit_value *value = value_of(&result, "gemm_efficiency");
    ck_assert_double_le(value->value, 0.8345);
    ck_assert(value->is_at_bound);
    ck_assert_double_eq(value->standard_error, 0);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

/* --- jobs that build on each other -------------------------------------------------------------
 */

START_TEST(a_later_job_uses_the_constants_of_an_earlier_one)
{
    struct fit_table table;
    struct fit_result results[2];
    struct err err = { 0 };
    fit_measure_products(0.7, 300, 2e-6);
    fit_load_table("{ \"name\": \"first\", \"prior_weight\": 10000, \"constants\": {"
                   " \"profiles/a100-80g-sxm\": { \"gemm_half_k\": { \"prior\": 300 },"
                   "   \"kernel\": { \"prior\": \"2 us\" } } }, \"rows\": [" FIT_PRODUCT_ROWS "] },"
                   "{ \"name\": \"second\", \"prior_weight\": 0.01, \"constants\": {"
                   " \"profiles/a100-80g-sxm\": { \"gemm_efficiency\": { \"prior\": 0.8 } } },"
                   " \"rows\": [" FIT_PRODUCT_ROWS "] }",
                   &table);
    run(&table, 0, &results[0]);
    check_ok(fit_run(&table, &table.jobs[1], results, 1, 1, false, &results[1], &err), &err);
    must_find(&results[1], "gemm_efficiency", 0.7);
    ck_assert_double_lt(results[1].sources[0].in_sample.worst, 0.005);
    fit_result_release(&results[0]);
    fit_result_release(&results[1]);
    fit_table_release(&table);
}
END_TEST

START_TEST(files_that_share_a_constant_get_one_value)
{
    static const char *const expected[] = { "profiles/a100-80g-sxm", "profiles/a100-40g-sxm" };
    struct fit_table table;
    struct fit_result result;
    struct arena arena = { 0 };
    struct err err = { 0 };
    fit_measure_products(0.7, 300, 2e-6);
    fit_load_table(
        "{ \"name\": \"twins\", \"constants\": { \"profiles/a100-80g-sxm+a100-40g-sxm\": {"
        " \"gemm_efficiency\": { \"prior\": 0.8 } } }, \"rows\": [" FIT_PRODUCT_ROWS "] }",
        &table);
    run(&table, 0, &result);
    struct findings findings = { &result, 1, NULL, NULL };
    struct fitted_files files = fitted_files_list(&findings, &arena);
    ck_assert_int_eq(files.count, 2);
    for (int i = 0; i < 2; i++) {
        struct text text = { 0 };
        ck_assert_str_eq(files.at[i], expected[i]);
        check_ok(fitted_file_text(files.at[i], &findings, &text, &err), &err);
        json_t *root = json_loads(text_get(&text), 0, NULL);
        ck_assert_double_eq(json_real_value(json_object_get(root, "gemm_efficiency")),
                            result.values[0].value);
        json_decref(root);
        text_release(&text);
    }
    arena_release(&arena);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

/* --- curves ----------------------------------------------------------------------------------- */

static struct curve knots_of(int n, const double *bytes)
{
    struct curve curve = { .num_ranks = 8, .num_nodes = 1, .num_points = n };
    for (int i = 0; i < n; i++)
        curve.points[i].bytes = bytes[i];
    return curve;
}

START_TEST(a_curve_with_few_knots_is_recovered)
{
    static const double sizes[] = { 1e6, 4e6, 64e6 };
    static const double times[] = { 50e-6, 80e-6, 900e-6 };
    double bytes[30], time_s[30];
    struct curve truth = knots_of(3, sizes), found = knots_of(3, sizes);
    for (int i = 0; i < 3; i++) {
        truth.points[i].time_s = times[i];
        truth.points[i].log_s = log(times[i]);
        truth.points[i].log_bytes = log(sizes[i]);
    }
    for (int i = 0; i < 30; i++) {
        bytes[i] = 1e6 * pow(64, i / 29.0);
        time_s[i] = curve_s(&truth, bytes[i]);
    }
    curve_fit(&found, bytes, time_s, 30);
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq_tol(found.points[i].time_s / times[i], 1, 1e-3);
}
END_TEST

START_TEST(a_fitted_curve_never_falls)
{
    static const double sizes[] = { 1e6, 2e6, 4e6, 8e6, 16e6 };
    static const double time_s[] = { 50e-6, 120e-6, 90e-6, 80e-6, 200e-6 };
    struct curve found = knots_of(5, sizes);
    curve_fit(&found, sizes, time_s, 5);
    for (int i = 1; i < 5; i++)
        ck_assert_double_ge(found.points[i].time_s, found.points[i - 1].time_s);
    /* Three measured times decrease although sizes grow; they are replaced by their geometric
     * mean. */
    ck_assert_double_eq_tol(found.points[2].time_s, cbrt(120e-6 * 90e-6 * 80e-6), 1e-7);
    ck_assert_double_eq_tol(found.points[4].time_s, 200e-6, 1e-7);
}
END_TEST

/* The curve does not rise over sizes without measurements. */
START_TEST(a_knot_without_data_equals_the_knot_before)
{
    static const double sizes[] = { 1e6, 2e6, 4e6, 8e6 };
    static const double time_s[] = { 50e-6, 80e-6 };
    struct curve found = knots_of(4, sizes);
    curve_fit(&found, sizes, time_s, 2);
    ck_assert_double_eq_tol(found.points[1].time_s, 80e-6, 1e-8);
    ck_assert_double_eq(found.points[3].time_s, found.points[1].time_s);
}
END_TEST

/* --- reproducibility -------------------------------------------------------------------------- */

START_TEST(a_fit_has_the_same_bits_on_any_number_of_threads)
{
    struct fit_table table;
    struct fit_result one, four;
    struct err err = { 0 };
    fit_measure(runs_job, "runs.csv", run_header, runs, LENGTH(runs), 1, runs_values);
    fit_load_table(runs_job, &table);
    run(&table, 0, &one);
    check_ok(fit_run(&table, &table.jobs[0], NULL, 0, 4, false, &four, &err), &err);
    for (int j = 0; j < one.num_values; j++) {
        ck_assert_mem_eq(&one.values[j].value, &four.values[j].value, sizeof(double));
        ck_assert_mem_eq(&one.values[j].standard_error, &four.values[j].standard_error,
                         sizeof(double));
    }
    fit_result_release(&one);
    fit_result_release(&four);
    fit_table_release(&table);
}
END_TEST

/* --- judging ---------------------------------------------------------------------------------- */

static void cross_validate(const char *jobs, struct fit_table *table, struct fit_result *result)
{
    struct err err = { 0 };
    fit_load_table(jobs, table);
    check_ok(fit_run(table, &table->jobs[0], NULL, 0, 1, true, result, &err), &err);
}

START_TEST(each_row_is_predicted_by_a_fit_without_that_row)
{
    struct fit_table table;
    struct fit_result result;
    fit_measure(runs_job, "runs.csv", run_header, runs, LENGTH(runs), 1, runs_values);
    cross_validate(runs_job, &table, &result);
    ck_assert_int_eq(result.num_sources, 1);
    ck_assert_int_eq(result.sources[0].out_of_sample.groups, LENGTH(runs));
    ck_assert_double_lt(result.sources[0].out_of_sample.worst, 0.05);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

/* Two contradictory sources: one measured 180 TFLOP/s, the other 240. Each is predicted with the
 * constant that was fitted to the other, so its error is log(240 / 180). */
START_TEST(shared_constants_are_scored_on_a_left_out_source)
{
    struct fit_table table;
    struct fit_result result;
    fit_write_text("slow.csv", "dtype,m,n,k,tflops\nbf16,8192,8192,8192,180\n");
    fit_write_text("fast.csv", "dtype,m,n,k,tflops\nbf16,8192,8192,8192,240\n");
    cross_validate("{ \"name\": \"two\", \"prior_weight\": 0.001, \"constants\": {"
                   " \"profiles/a100-80g-sxm\": { \"gemm_efficiency\": { \"prior\": 0.8 } } },"
                   " \"rows\": [{ \"kind\": \"products\", \"data\": \"@/slow.csv\","
                   "   \"name\": \"slow\", \"cluster\": \"dgx-a100-80g\" },"
                   " { \"kind\": \"products\", \"data\": \"@/fast.csv\","
                   "   \"name\": \"fast\", \"cluster\": \"dgx-a100-80g\" }] }",
                   &table, &result);
    ck_assert_int_eq(result.num_sources, 2);
    double apart = log(240.0 / 180);
    ck_assert_double_eq_tol(result.sources[0].out_of_sample.bias, -apart, 0.01);
    ck_assert_double_eq_tol(result.sources[1].out_of_sample.bias, apart, 0.01);
    ck_assert_double_lt(result.sources[0].in_sample.worst, apart);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

static Suite *fit_suite(void)
{
    Suite *suite = suite_create("fit");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, fit_folder_make, fit_folder_remove);
    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, a_fit_recovers_known_constants_from_products);
    tcase_add_test(tcase, a_fit_recovers_known_constants_from_collectives);
    tcase_add_test(tcase, a_fit_recovers_known_constants_from_kernels);
    tcase_add_test(tcase, a_fit_recovers_known_constants_from_runs);
    tcase_add_test(tcase, a_constant_that_affects_no_row_keeps_its_prior);
    tcase_add_test(tcase, a_strong_prior_outweighs_the_rows);
    tcase_add_test(tcase, a_fitted_constant_stays_in_its_bound_and_the_bound_is_reported);
    tcase_add_test(tcase, a_later_job_uses_the_constants_of_an_earlier_one);
    tcase_add_test(tcase, files_that_share_a_constant_get_one_value);
    tcase_add_test(tcase, a_fit_has_the_same_bits_on_any_number_of_threads);
    tcase_add_test(tcase, each_row_is_predicted_by_a_fit_without_that_row);
    tcase_add_test(tcase, shared_constants_are_scored_on_a_left_out_source);
    tcase_add_test(tcase, a_curve_with_few_knots_is_recovered);
    tcase_add_test(tcase, a_fitted_curve_never_falls);
    tcase_add_test(tcase, a_knot_without_data_equals_the_knot_before);
    suite_add_tcase(suite, tcase);
    return suite;
}

TEST_MAIN(fit_suite)
