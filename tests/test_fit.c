#include "tests/testing.h"

#include "base/file.h"
#include "calibration/fit.h"
#include "calibration/fitted_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof *(array)))

/* --- files that a test makes ------------------------------------------------------------------ */

static char folder[64];

static void setup(void)
{
    snprintf(folder, sizeof folder, "/tmp/simsearch-fit-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

static void check_ok(bool ok, const struct err *err)
{
    ck_assert_msg(ok, "%s: %s", err->where, err->msg);
}

static void path_of(const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", folder, name);
}

static void write_text(const char *name, const char *text)
{
    char path[128];
    struct err err = { 0 };
    path_of(name, path, sizeof path);
    check_ok(file_write(path, text, strlen(text), &err), &err);
}

static char *read_text(const char *path)
{
    struct err err = { 0 };
    char *text = file_read(path, FILE_MAX_BYTES, NULL, &err);
    check_ok(text != NULL, &err);
    return text;
}

/* A table of jobs; '@' stands for the test's folder. */
static void load_table(const char *jobs, struct fit_table *table)
{
    struct text text = { 0 };
    char path[128];
    struct err err = { 0 };
    text_add(&text, "{ \"format\": 1, \"jobs\": [");
    for (const char *at = jobs; *at; at++) {
        if (*at == '@')
            text_add(&text, "%s", folder);
        else
            text_add(&text, "%c", *at);
    }
    text_add(&text, "] }");
    write_text("fit.json", text_get(&text));
    text_release(&text);
    path_of("fit.json", path, sizeof path);
    check_ok(fit_table_load(path, table, &err), &err);
}

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

/* --- synthetic measurements ------------------------------------------------------------------- */

/* Puts the times that the constants of a job would give into a column of its data, whose last
 * column is empty so far; the job's own constants are `true_values`. */
static void measure(const char *jobs, const char *name, const char *header, const char *const *rows,
                    int num_rows, double unit_s, const double *true_values)
{
    struct fit_table table;
    struct observations observations;
    struct text csv = { 0 };
    struct err err = { 0 };
    double predicted_s[64];
    ck_assert_int_le(num_rows, LENGTH(predicted_s));
    text_add(&csv, "%s\n", header);
    for (int i = 0; i < num_rows; i++)
        text_add(&csv, "%s,1\n", rows[i]);
    write_text(name, text_get(&csv));
    text_release(&csv);

    load_table(jobs, &table);
    const struct fit_job *job = &table.jobs[0];
    check_ok(observations_load(&table, job, &observations, &err), &err);
    ck_assert_int_eq(observations.count, num_rows);
    for (int j = 0; j < job->num_constants; j++)
        ck_assert_int_gt(
            observations_set(&observations, &job->constants[j].constant, true_values[j]), 0);
    observations_predict(&observations, 1, predicted_s);
    csv = (struct text){ 0 };
    text_add(&csv, "%s\n", header);
    for (int i = 0; i < num_rows; i++)
        text_add(&csv, "%s,%.15g\n", rows[i], predicted_s[i] / unit_s);
    write_text(name, text_get(&csv));
    text_release(&csv);
    observations_release(&observations);
    fit_table_release(&table);
}

#define PRODUCT_ROWS \
    "{ \"kind\": \"products\", \"data\": \"@/gemm.csv\", \"cluster\": \"dgx-a100-80g\" }"
static const char products_job[] =
    "{ \"name\": \"products\", \"prior_weight\": 0.01, \"constants\": {"
    "  \"profiles/a100-80g-sxm\": { \"gemm_efficiency\": { \"prior\": 0.8 },"
    "    \"gemm_half_k\": { \"prior\": 200 }, \"kernel\": { \"prior\": \"4 us\" } } },"
    "  \"rows\": [" PRODUCT_ROWS "] }";
static const char product_header[] = "dtype,m,n,k,time_us";
static const char *const products[] = {
    "bf16,64,256,64",      "bf16,128,256,128",    "bf16,512,512,128",    "bf16,1024,1024,256",
    "bf16,2048,2048,512",  "bf16,4096,4096,64",   "bf16,4096,4096,1024", "bf16,8192,8192,8192",
    "bf16,8192,4096,4096", "bf16,16384,4096,128", "bf16,2048,8192,2048", "bf16,4096,12288,256",
};

static void measure_products(double efficiency, double half_k, double kernel_s)
{
    const double values[] = { efficiency, half_k, kernel_s };
    measure(products_job, "gemm.csv", product_header, products, LENGTH(products), 1e-6, values);
}

START_TEST(known_constants_come_back_from_products)
{
    struct fit_table table;
    struct fit_result result;
    measure_products(0.7, 300, 2e-6);
    load_table(products_job, &table);
    run(&table, 0, &result);
    must_find(&result, "gemm_efficiency", 0.7);
    must_find(&result, "gemm_half_k", 300);
    must_find(&result, "kernel", 2e-6);
    ck_assert_double_lt(result.sources[0].in_sample.worst, 0.005);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

START_TEST(known_constants_come_back_from_collectives)
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
    measure(job, "comm.csv", "op,bytes,nodes,gpus,time_us", rows, LENGTH(rows), 1e-6, values);
    load_table(job, &table);
    run(&table, 0, &result);
    must_find(&result, "intra_bandwidth_factor", values[0]);
    must_find(&result, "intra_latency_factor", values[1]);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

START_TEST(known_constants_come_back_from_kernels)
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
    measure(job, "ops.csv", "op,dtype,shape,bytes,flops,time_us", rows, LENGTH(rows), 1e-6, values);
    load_table(job, &table);
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
    "{ \"name\": \"runs\", \"prior_weight\": 0.01, \"constants\": {"
    "  \"profiles/a100-80g-sxm\": { \"gemm_efficiency\": { \"prior\": 0.8 },"
    "    \"memory_efficiency\": { \"prior\": 0.8 }, \"intra_bandwidth_factor\": { \"prior\": 1 } },"
    "  \"stacks/megatron-2021\": { \"step_overhead\": { \"prior\": \"1 ms\" } } },"
    "  \"rows\": [{ \"data\": \"@/runs.csv\", \"source\": \"made-up\" }] }";
static const double runs_values[] = { 0.7, 0.9, 0.6, 3e-3 };

START_TEST(known_constants_come_back_from_runs)
{
    struct fit_table table;
    struct fit_result result;
    measure(runs_job, "runs.csv", run_header, runs, LENGTH(runs), 1, runs_values);
    load_table(runs_job, &table);
    run(&table, 0, &result);
    for (int j = 0; j < result.num_values; j++)
        must_find(&result, result.values[j].of->constant.key, runs_values[j]);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

/* --- priors and bounds ------------------------------------------------------------------------ */

START_TEST(a_constant_that_no_row_feels_keeps_its_prior)
{
    struct fit_table table;
    struct fit_result result;
    measure_products(0.7, 300, 2e-6);
    load_table("{ \"name\": \"idle\", \"constants\": { \"profiles/a100-80g-sxm\": {"
               " \"gemm_efficiency\": { \"prior\": 0.8 },"
               " \"overlap_comm_slowdown\": { \"prior\": 1.3 } } }, \"rows\": [" PRODUCT_ROWS "] }",
               &table);
    run(&table, 0, &result);
    ck_assert_double_eq(value_of(&result, "overlap_comm_slowdown")->value, 1.3);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

START_TEST(a_strong_prior_is_kept)
{
    struct fit_table table;
    struct fit_result result;
    measure_products(0.7, 300, 2e-6);
    load_table("{ \"name\": \"sure\", \"prior_weight\": 10000, \"constants\": {"
               " \"profiles/a100-80g-sxm\": { \"gemm_efficiency\": { \"prior\": 0.8 } } },"
               " \"rows\": [" PRODUCT_ROWS "] }",
               &table);
    run(&table, 0, &result);
    ck_assert_double_eq(value_of(&result, "gemm_efficiency")->value, 0.8);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

START_TEST(a_bound_holds_and_is_told)
{
    struct fit_table table;
    struct fit_result result;
    measure_products(0.9, 200, 2e-6);
    load_table("{ \"name\": \"low\", \"constants\": { \"profiles/a100-80g-sxm\": {"
               " \"gemm_efficiency\": { \"prior\": 0.8, \"max\": 0.8345 } } },"
               " \"rows\": [" PRODUCT_ROWS "] }",
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

START_TEST(a_later_job_sees_what_an_earlier_one_found)
{
    struct fit_table table;
    struct fit_result results[2];
    struct err err = { 0 };
    measure_products(0.7, 300, 2e-6);
    load_table("{ \"name\": \"first\", \"prior_weight\": 10000, \"constants\": {"
               " \"profiles/a100-80g-sxm\": { \"gemm_half_k\": { \"prior\": 300 },"
               "   \"kernel\": { \"prior\": \"2 us\" } } }, \"rows\": [" PRODUCT_ROWS "] },"
               "{ \"name\": \"second\", \"prior_weight\": 0.01, \"constants\": {"
               " \"profiles/a100-80g-sxm\": { \"gemm_efficiency\": { \"prior\": 0.8 } } },"
               " \"rows\": [" PRODUCT_ROWS "] }",
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

START_TEST(files_that_share_a_constant_get_the_same)
{
    static const char *const expected[] = { "profiles/a100-80g-sxm", "profiles/a100-40g-sxm" };
    struct fit_table table;
    struct fit_result result;
    struct arena arena = { 0 };
    struct err err = { 0 };
    measure_products(0.7, 300, 2e-6);
    load_table("{ \"name\": \"twins\", \"constants\": { \"profiles/a100-80g-sxm+a100-40g-sxm\": {"
               " \"gemm_efficiency\": { \"prior\": 0.8 } } }, \"rows\": [" PRODUCT_ROWS "] }",
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

START_TEST(a_curve_through_few_knots_is_found_again)
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
    /* The three that fall are one, at their mean of log times. */
    ck_assert_double_eq_tol(found.points[2].time_s, cbrt(120e-6 * 90e-6 * 80e-6), 1e-7);
    ck_assert_double_eq_tol(found.points[4].time_s, 200e-6, 1e-7);
}
END_TEST

/* Sizes without a measurement between them do not rise. */
START_TEST(a_knot_that_nothing_tells_of_is_as_the_one_before)
{
    static const double sizes[] = { 1e6, 2e6, 4e6, 8e6 };
    static const double time_s[] = { 50e-6, 80e-6 };
    struct curve found = knots_of(4, sizes);
    curve_fit(&found, sizes, time_s, 2);
    ck_assert_double_eq_tol(found.points[1].time_s, 80e-6, 1e-8);
    ck_assert_double_eq(found.points[3].time_s, found.points[1].time_s);
}
END_TEST

/* --- the same again --------------------------------------------------------------------------- */

START_TEST(a_fit_has_the_same_bits_on_any_number_of_threads)
{
    struct fit_table table;
    struct fit_result one, four;
    struct err err = { 0 };
    measure(runs_job, "runs.csv", run_header, runs, LENGTH(runs), 1, runs_values);
    load_table(runs_job, &table);
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

/* SplitMix64 of seed 7, drawn once and for all: a job must mean the same rows for ever. */
START_TEST(a_sample_is_the_same_for_ever)
{
    struct fit_table table;
    struct observations first, other;
    struct err err = { 0 };
    load_table("{ \"name\": \"drawn\", \"constants\": { \"profiles/a100-80g-sxm\": {"
               " \"gemm_efficiency\": { \"prior\": 0.8 } } }, \"rows\": ["
               " { \"source\": \"vtrain_single\", \"sample\": 4, \"seed\": 7 }] },"
               "{ \"name\": \"other\", \"constants\": { \"profiles/a100-80g-sxm\": {"
               " \"gemm_efficiency\": { \"prior\": 0.8 } } }, \"rows\": ["
               " { \"source\": \"vtrain_single\", \"sample\": 4, \"seed\": 8 }] }",
               &table);
    check_ok(observations_load(&table, &table.jobs[0], &first, &err), &err);
    check_ok(observations_load(&table, &table.jobs[1], &other, &err), &err);
    ck_assert_int_eq(first.count, 4);
    static const char *const expected[] = { "vtrain_single-0055", "vtrain_single-0202",
                                            "vtrain_single-1048", "vtrain_single-1175" };
    bool differs = false;
    for (int i = 0; i < 4; i++) {
        ck_assert_str_eq(first.at[i].id, expected[i]);
        ck_assert_double_eq(first.at[i].weight, 25);
        differs = differs || strcmp(first.at[i].id, other.at[i].id) != 0;
    }
    ck_assert(differs);
    observations_release(&first);
    observations_release(&other);
    fit_table_release(&table);
}
END_TEST

/* --- judging ---------------------------------------------------------------------------------- */

static void cross_validate(const char *jobs, struct fit_table *table, struct fit_result *result)
{
    struct err err = { 0 };
    load_table(jobs, table);
    check_ok(fit_run(table, &table->jobs[0], NULL, 0, 1, true, result, &err), &err);
}

START_TEST(every_row_is_predicted_without_itself)
{
    struct fit_table table;
    struct fit_result result;
    measure(runs_job, "runs.csv", run_header, runs, LENGTH(runs), 1, runs_values);
    cross_validate(runs_job, &table, &result);
    ck_assert_int_eq(result.num_sources, 1);
    ck_assert_int_eq(result.sources[0].out_of_sample.groups, LENGTH(runs));
    ck_assert_double_lt(result.sources[0].out_of_sample.worst, 0.05);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

/* Two sources that contradict each other: 0.6 and 0.9 of the peak. Each is predicted by what the
 * other says. */
START_TEST(shared_physics_is_judged_on_a_source_that_was_left_out)
{
    struct fit_table table;
    struct fit_result result;
    write_text("slow.csv", "dtype,m,n,k,tflops\nbf16,8192,8192,8192,180\n");
    write_text("fast.csv", "dtype,m,n,k,tflops\nbf16,8192,8192,8192,240\n");
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

/* --- faulty tables ---------------------------------------------------------------------------- */

#define JOB(constants, rows)                                                                 \
    "{ \"format\": 1, \"jobs\": [\n{ \"name\": \"j\",\n"                                     \
    "\"constants\": { \"profiles/a100-80g-sxm\": {\n" constants "\n} },\n\"rows\": [\n" rows \
    "\n] } ] }"
#define FINE_CONSTANT "\"gemm_efficiency\": { \"prior\": 0.8 }"
#define FINE_ROWS     "{ \"ids\": [\"megatron2021-003\"] }"

static const struct {
    const char *text, *where, *message;
} faults[] = {
    { "{ \"format\": 1 }", ":1: jobs", "is missing" },
    { "{ \"format\": 2, \"jobs\": [] }", ":1: format", "expected 1" },
    { JOB("\"gemm_eficiency\": { \"prior\": 0.8 }", FINE_ROWS),
      ":4: jobs[0].constants.profiles/a100-80g-sxm.gemm_eficiency",
      "did you mean \"gemm_efficiency\"?" },
    { JOB("\"gemm_efficiency\": { \"min\": 0.8 }", FINE_ROWS),
      ":4: jobs[0].constants.profiles/a100-80g-sxm.gemm_efficiency.prior", "is missing" },
    { JOB("\"gemm_efficiency\": { \"prior\": \"fast\" }", FINE_ROWS),
      ":4: jobs[0].constants.profiles/a100-80g-sxm.gemm_efficiency.prior", "expected a number" },
    { JOB("\"kernel\": { \"prior\": 3 }", FINE_ROWS),
      ":4: jobs[0].constants.profiles/a100-80g-sxm.kernel.prior", "unit" },
    { JOB("\"gemm_efficiency\": { \"prior\": 0.8, \"max\": 0.7 }", FINE_ROWS),
      ":4: jobs[0].constants.profiles/a100-80g-sxm.gemm_efficiency.prior", "between the bounds" },
    { JOB("\"kernel\": { \"prior\": \"0 us\" }", FINE_ROWS),
      ":4: jobs[0].constants.profiles/a100-80g-sxm.kernel.prior", "more than 0" },
    { JOB("\"gemm_tiles[99]\": { \"prior\": 0.8 }", FINE_ROWS),
      ":4: jobs[0].constants.profiles/a100-80g-sxm.gemm_tiles[99]", "expected a tile" },
    { JOB("\"attention.flash9.half_seq\": { \"prior\": 300 }", FINE_ROWS),
      ":4: jobs[0].constants.profiles/a100-80g-sxm.attention.flash9.half_seq",
      "expected attention.KERNEL.KEY" },
    { JOB(FINE_CONSTANT, ""), ":6: jobs[0].rows", "at least one" },
    { JOB(FINE_CONSTANT, "{ \"sampel\": 3 }"), ":7: jobs[0].rows[0].sampel", "\"sample\"" },
    { JOB(FINE_CONSTANT, "{ \"ids\": [3] }"), ":7: jobs[0].rows[0].ids[0]", "expected the id" },
    { JOB(FINE_CONSTANT, "{ \"source\": \"x\", \"where\": { \"gpu\": 8 } }"),
      ":7: jobs[0].rows[0].where.gpu", "expected the text" },
    { "{ \"format\": 1, \"jobs\": [\n{ \"name\": \"j\", \"constants\": { \"models/x\": {\n"
      "\"layers\": { \"prior\": 3 } } }, \"rows\": [] } ] }",
      ":3: jobs[0].constants.models/x.layers", "expected profiles/NAME" },
};

START_TEST(a_faulty_table_is_blamed_by_line_and_key)
{
    struct fit_table table;
    struct err err = { 0 };
    char path[128];
    write_text("fit.json", faults[_i].text);
    path_of("fit.json", path, sizeof path);
    ck_assert(!fit_table_load(path, &table, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_msg(strncmp(err.where, path, strlen(path)) == 0 &&
                      strcmp(err.where + strlen(path), faults[_i].where) == 0,
                  "%s: %s", err.where, err.msg);
    ck_assert_msg(strstr(err.msg, faults[_i].message) != NULL, "%s", err.msg);
    fit_table_release(&table);
}
END_TEST

/* Faults that only the data shows. */
static const struct {
    const char *text, *where, *message;
} mismatches[] = {
    { JOB(FINE_CONSTANT, "{ \"ids\": [\"megatron2021-003\",\n\"megatron2021-999\"] }"),
      ":8: jobs[0].rows[0].ids[1]", "has no row" },
    { JOB(FINE_CONSTANT, "{ \"source\": \"megatron2091\" }"), ":7: jobs[0].rows[0]",
      "no such core row" },
    { JOB(FINE_CONSTANT, "{ \"kind\": \"rumours\" }"), ":7: jobs[0].rows[0].kind",
      "not a kind of measurement" },
    { JOB(FINE_CONSTANT, "{ \"kind\": \"products\", \"data\": \"gemm.csv\" }"),
      ":7: jobs[0].rows[0]", "expected a \"cluster\"" },
    { JOB(FINE_CONSTANT, "{ \"source\": \"vtrain_single\", \"where\": { \"colour\": \"x\" } }"),
      ":7: jobs[0].rows[0].where.colour", "no such column" },
    { JOB(FINE_CONSTANT,
          "{ \"kind\": \"products\", \"data\": \"gemm.csv\", \"cluster\": \"dgx-b200\" }"),
      ":4: jobs[0].constants.profiles/a100-80g-sxm.gemm_efficiency", "none of the job's rows" },
};

START_TEST(rows_that_a_table_lacks_are_blamed_by_line_and_key)
{
    struct fit_table table;
    struct fit_result result;
    struct err err = { 0 };
    char path[128];
    write_text("fit.json", mismatches[_i].text);
    path_of("fit.json", path, sizeof path);
    check_ok(fit_table_load(path, &table, &err), &err);
    ck_assert(!fit_run(&table, &table.jobs[0], NULL, 0, 1, false, &result, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_msg(strcmp(err.where + strlen(path), mismatches[_i].where) == 0, "%s: %s", err.where,
                  err.msg);
    ck_assert_msg(strstr(err.msg, mismatches[_i].message) != NULL, "%s", err.msg);
    fit_result_release(&result);
    fit_table_release(&table);
}
END_TEST

/* --- files ------------------------------------------------------------------------------------ */

START_TEST(data_files_are_laid_out_within_100_columns)
{
    static const char json[] =
        "{\"name\":\"x\",\"value\":0.834,\"whole\":1.0,\"none\":{},\"empty\":[],"
        "\"tiles\":[[256,128,1.0],[128,256,1.0],[128,128,0.95],[128,64,0.82],[64,128,0.82],"
        "[64,64,0.65],[32,32,0.5]],\"rates\":{\"a\":{\"b\":1},\"c\":{\"d\":\"\\\"\"}}}";
    static const char expected[] =
        "{\n  \"name\": \"x\",\n  \"value\": 0.834,\n  \"whole\": 1.0,\n  \"none\": {},\n"
        "  \"empty\": [],\n  \"tiles\": [\n"
        "    [256, 128, 1.0], [128, 256, 1.0], [128, 128, 0.95], [128, 64, 0.82], [64, 128, 0.82],"
        "\n    [64, 64, 0.65], [32, 32, 0.5]\n  ],\n"
        "  \"rates\": {\n    \"a\": { \"b\": 1 },\n    \"c\": { \"d\": \"\\\"\" }\n  }\n}\n";
    struct text text = { 0 };
    json_t *root = json_loads(json, 0, NULL);
    text_add_json(&text, root);
    ck_assert_str_eq(text_get(&text), expected);
    json_decref(root);
    text_release(&text);
}
END_TEST

/* Runs the program; its exit code. */
static int run_program(const char *arguments)
{
    char command[512];
    snprintf(command, sizeof command, "'%s' fit %s >'%s/out' 2>&1", getenv("SIMSEARCH"), arguments,
             folder);
    int status = system(command);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

START_TEST(a_job_writes_the_shipped_files_byte_for_byte)
{
    static const char *const files[] = { "profiles/a100-80g-sxm", "profiles/a100-40g-sxm",
                                         "profiles/v100-32g-sxm", "profiles/a100-80g-pcie" };
    char arguments[256];
    snprintf(arguments, sizeof arguments,
             "a100-collectives v100-collectives a100-pcie-products -o '%s/fitted'", folder);
    ck_assert_int_eq(run_program(arguments), 0);
    for (int i = 0; i < LENGTH(files); i++) {
        char shipped[4096], written[256];
        struct err err = { 0 };
        check_ok(fitted_file_path(files[i], shipped, sizeof shipped, &err), &err);
        snprintf(written, sizeof written, "%s/fitted/%s.json", folder, files[i]);
        char *expected = read_text(shipped), *found = read_text(written);
        ck_assert_msg(strcmp(expected, found) == 0, "%s differs", files[i]);
        free(expected);
        free(found);
    }
}
END_TEST

START_TEST(no_shipped_file_would_change)
{
    char out[128];
    int code = run_program("--check");
    path_of("out", out, sizeof out);
    char *text = read_text(out);
    ck_assert_msg(code == 0 && strstr(text, "same") && !strstr(text, "changed"),
                  "exit %d: %s\n`simsearch fit -o calibration` writes them anew", code, text);
    free(text);
}
END_TEST

START_TEST(a_check_tells_what_would_change)
{
    char arguments[256], out[128];
    struct fit_table table;
    measure_products(0.7, 300, 2e-6);
    load_table(products_job, &table);
    fit_table_release(&table);
    snprintf(arguments, sizeof arguments, "--check --table '%s/fit.json'", folder);
    ck_assert_int_eq(run_program(arguments), 1);
    path_of("out", out, sizeof out);
    char *text = read_text(out);
    ck_assert_msg(strstr(text, "changed  calibration/profiles/a100-80g-sxm.json"), "%s", text);
    free(text);
}
END_TEST

START_TEST(a_job_that_is_misspelt_is_asked_about)
{
    char out[128];
    ck_assert_int_eq(run_program("a100-colectives"), 2);
    path_of("out", out, sizeof out);
    char *text = read_text(out);
    ck_assert_msg(strstr(text, "did you mean \"a100-collectives\"?"), "%s", text);
    free(text);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_test(tcase, known_constants_come_back_from_products);
    tcase_add_test(tcase, known_constants_come_back_from_collectives);
    tcase_add_test(tcase, known_constants_come_back_from_kernels);
    tcase_add_test(tcase, known_constants_come_back_from_runs);
    tcase_add_test(tcase, a_constant_that_no_row_feels_keeps_its_prior);
    tcase_add_test(tcase, a_strong_prior_is_kept);
    tcase_add_test(tcase, a_bound_holds_and_is_told);
    tcase_add_test(tcase, a_later_job_sees_what_an_earlier_one_found);
    tcase_add_test(tcase, files_that_share_a_constant_get_the_same);
    tcase_add_test(tcase, a_fit_has_the_same_bits_on_any_number_of_threads);
    tcase_add_test(tcase, a_sample_is_the_same_for_ever);
    tcase_add_test(tcase, every_row_is_predicted_without_itself);
    tcase_add_test(tcase, shared_physics_is_judged_on_a_source_that_was_left_out);
    tcase_add_loop_test(tcase, a_faulty_table_is_blamed_by_line_and_key, 0, LENGTH(faults));
    tcase_add_loop_test(tcase, rows_that_a_table_lacks_are_blamed_by_line_and_key, 0,
                        LENGTH(mismatches));
    tcase_add_test(tcase, data_files_are_laid_out_within_100_columns);
    tcase_add_test(tcase, a_job_writes_the_shipped_files_byte_for_byte);
    tcase_add_test(tcase, a_curve_through_few_knots_is_found_again);
    tcase_add_test(tcase, a_fitted_curve_never_falls);
    tcase_add_test(tcase, a_knot_that_nothing_tells_of_is_as_the_one_before);
    tcase_add_test(tcase, no_shipped_file_would_change);
    tcase_add_test(tcase, a_check_tells_what_would_change);
    tcase_add_test(tcase, a_job_that_is_misspelt_is_asked_about);
}

static Suite *fit_suite(void)
{
    Suite *suite = suite_create("fit");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 20);
    add_tests(tcase);
    suite_add_tcase(suite, tcase);
    return suite;
}

TEST_MAIN(fit_suite)
