/* not under asan: tests/calibration/test_fit.c calls the same functions. */
#include "calibration/fit/fit.h"

#include "base/json_layout.h"
#include "base/text.h"
#include "calibration/fit/fitted_file.h"
#include "tests/calibration/fit_tables.h"
#include "tests/check_ok.h"
#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* A job must always select the same sample of rows: SplitMix64 with seed 7 has fixed results. */
START_TEST(a_sample_of_rows_never_changes)
{
    struct fit_table table;
    struct observations first, other;
    struct err err = { 0 };
    fit_load_table("{ \"name\": \"drawn\", \"constants\": { \"profiles/a100-80g-sxm\": {"
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
      ":7: jobs[0].rows[0].where.gpu", "expected a text" },
    { "{ \"format\": 1, \"jobs\": [\n{ \"name\": \"j\", \"constants\": { \"models/x\": {\n"
      "\"layers\": { \"prior\": 3 } } }, \"rows\": [] } ] }",
      ":3: jobs[0].constants.models/x.layers", "expected profiles/NAME" },
};

START_TEST(an_error_in_a_table_names_line_and_key)
{
    struct fit_table table;
    struct err err = { 0 };
    char path[128];
    fit_write_text("fit.json", faults[_i].text);
    fit_path("fit.json", path, sizeof path);
    ck_assert(!fit_table_load(path, &table, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_msg(strncmp(err.where, path, strlen(path)) == 0 &&
                      strcmp(err.where + strlen(path), faults[_i].where) == 0,
                  "%s: %s", err.where, err.msg);
    ck_assert_msg(strstr(err.msg, faults[_i].message) != NULL, "%s", err.msg);
    fit_table_release(&table);
}
END_TEST

/* Faults that are found only when the data is read. */
static const struct {
    const char *text, *where, *message;
} mismatches[] = {
    { JOB(FINE_CONSTANT, "{ \"ids\": [\"megatron2021-003\",\n\"megatron2021-999\"] }"),
      ":8: jobs[0].rows[0].ids[1]", "has no row" },
    { JOB(FINE_CONSTANT, "{ \"source\": \"megatron2091\" }"), ":7: jobs[0].rows[0]",
      "no row of the measured runs has this id" },
    { JOB(FINE_CONSTANT, "{ \"kind\": \"rumours\" }"), ":7: jobs[0].rows[0].kind",
      "not a kind of measurement" },
    { JOB(FINE_CONSTANT, "{ \"kind\": \"products\", \"data\": \"gemm.csv\" }"),
      ":7: jobs[0].rows[0]", "expected a \"cluster\"" },
    { JOB(FINE_CONSTANT, "{ \"source\": \"vtrain_single\", \"where\": { \"colour\": \"x\" } }"),
      ":7: jobs[0].rows[0].where.colour", "no text column" },
    { JOB(FINE_CONSTANT,
          "{ \"kind\": \"products\", \"data\": \"gemm.csv\", \"cluster\": \"dgx-b200\" }"),
      ":4: jobs[0].constants.profiles/a100-80g-sxm.gemm_efficiency", "none of the job's rows" },
};

START_TEST(an_error_about_missing_rows_names_line_and_key)
{
    struct fit_table table;
    struct fit_result result;
    struct err err = { 0 };
    char path[128];
    fit_write_text("fit.json", mismatches[_i].text);
    fit_path("fit.json", path, sizeof path);
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

/* Runs the program and returns its exit code. */
static int run_program(const char *arguments)
{
    char command[512];
    snprintf(command, sizeof command, "'%s' fit %s >'%s/out' 2>&1", getenv("SIMSEARCH"), arguments,
             fit_folder);
    int status = system(command);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

START_TEST(a_fit_job_reproduces_the_shipped_files_byte_for_byte)
{
    static const char *const files[] = { "profiles/a100-80g-sxm", "profiles/a100-40g-sxm",
                                         "profiles/v100-32g-sxm", "profiles/a100-80g-pcie" };
    char arguments[256];
    snprintf(arguments, sizeof arguments,
             "a100-collectives v100-collectives a100-pcie-products -o '%s/fitted'", fit_folder);
    ck_assert_int_eq(run_program(arguments), 0);
    for (int i = 0; i < LENGTH(files); i++) {
        char shipped[4096], written[256];
        struct err err = { 0 };
        check_ok(fitted_file_path(files[i], shipped, sizeof shipped, &err), &err);
        snprintf(written, sizeof written, "%s/fitted/%s.json", fit_folder, files[i]);
        char *expected = fit_read_text(shipped), *found = fit_read_text(written);
        ck_assert_msg(strcmp(expected, found) == 0, "%s differs", files[i]);
        free(expected);
        free(found);
    }
}
END_TEST

START_TEST(fitting_again_changes_no_shipped_file)
{
    char out[128];
    int code = run_program("--check");
    fit_path("out", out, sizeof out);
    char *text = fit_read_text(out);
    ck_assert_msg(code == 0 && strstr(text, "same") && !strstr(text, "changed"),
                  "exit %d: %s\n`simsearch fit -o calibration` writes them anew", code, text);
    free(text);
}
END_TEST

START_TEST(a_check_lists_the_files_that_would_change)
{
    char arguments[256], out[128];
    struct fit_table table;
    fit_measure_products(0.7, 300, 2e-6);
    fit_load_table(fit_products_job, &table);
    fit_table_release(&table);
    snprintf(arguments, sizeof arguments, "--check --table '%s/fit.json'", fit_folder);
    ck_assert_int_eq(run_program(arguments), 1);
    fit_path("out", out, sizeof out);
    char *text = fit_read_text(out);
    ck_assert_msg(strstr(text, "changed  calibration/profiles/a100-80g-sxm.json"), "%s", text);
    free(text);
}
END_TEST

START_TEST(a_misspelt_job_is_answered_with_the_nearest_name)
{
    char out[128];
    ck_assert_int_eq(run_program("a100-colectives"), 2);
    fit_path("out", out, sizeof out);
    char *text = fit_read_text(out);
    ck_assert_msg(strstr(text, "did you mean \"a100-collectives\"?"), "%s", text);
    free(text);
}
END_TEST

static Suite *fit_suite(void)
{
    Suite *suite = suite_create("fit: tables and files");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, fit_folder_make, fit_folder_remove);
    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, a_sample_of_rows_never_changes);
    tcase_add_loop_test(tcase, an_error_in_a_table_names_line_and_key, 0, LENGTH(faults));
    tcase_add_loop_test(tcase, an_error_about_missing_rows_names_line_and_key, 0,
                        LENGTH(mismatches));
    tcase_add_test(tcase, data_files_are_laid_out_within_100_columns);
    tcase_add_test(tcase, a_fit_job_reproduces_the_shipped_files_byte_for_byte);
    tcase_add_test(tcase, fitting_again_changes_no_shipped_file);
    tcase_add_test(tcase, a_check_lists_the_files_that_would_change);
    tcase_add_test(tcase, a_misspelt_job_is_answered_with_the_nearest_name);
    suite_add_tcase(suite, tcase);
    return suite;
}

TEST_MAIN(fit_suite)
