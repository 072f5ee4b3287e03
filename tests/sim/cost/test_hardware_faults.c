#include "sim/cost/hardware.h"

#include "sim/cost/match.h"
#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One case is a broken file and the error that is expected. */
struct fault {
    const char *file, *where, *msg;
};

static void check_fault(const struct fault *fault, const struct err *err)
{
    ck_assert_msg(err->code == ERR_INPUT, "%s: code %d: %s", fault->file, (int)err->code, err->msg);
    ck_assert_msg(strstr(err->where, fault->where), "%s: the place in the error is %s", fault->file,
                  err->where);
    ck_assert_msg(strstr(err->msg, fault->msg), "%s: the message is %s", fault->file, err->msg);
}
static const struct fault gpu_faults[] = {
    { "bare_number.json", "bare_number.json:5: memory", "80" },
    { "bad_unit.json", "bad_unit.json:8: clock", "GHz" },
    { "format_2.json", "format_2.json:2: format", "expected 1; found 2" },
    { "misspelt_key.json", "misspelt_key.json:7: num_sm", "did you mean \"num_sms\"" },
    { "missing_key.json", "power", "is missing" },
    { "unknown_peak.json", ": peak.fp9", "did you mean" },
    { "no_peak.json", ": peak", "at least one" },
    { "bare_peak.json", ": peak.bf16", "TFLOP/s" },
    { "too_many_words.json", ":5: words", "at most 6; found 7" },
    { "empty_word.json", ":5: words[1]", "expected a text" },
    { "words_no_list.json", ":5: words", "expected a list" },
    { "source_of_nothing.json", ": sources.memmory", "did you mean \"memory\"" },
    { "source_no_text.json", ": sources.memory", "expected a text" },
    { "sources_no_object.json", ": sources", "expected an object" },
    { "negative_sms.json", ": num_sms", "found -132" },
    { "not_json.json", "not_json.json:3", "not valid JSON" },
};

START_TEST(an_error_in_a_gpu_file_names_line_and_key)
{
    char path[128];
    struct gpu gpu;
    struct err err = { 0 };
    snprintf(path, sizeof path, "tests/fixtures/gpu/%s", gpu_faults[_i].file);
    ck_assert(!gpu_load(path, &gpu, &err));
    check_fault(&gpu_faults[_i], &err);
}
END_TEST

static const struct fault cluster_faults[] = {
    { "two_groups.json", ":5: groups",
      "plans over 2 groups of different nodes are not supported; found 2" },
    { "no_groups.json", ":5: groups", "one group" },
    { "group_no_object.json", ": groups[0]", "expected an object" },
    { "no_levels.json", ": groups[0].levels", "1 to 6 levels; found 0" },
    { "seven_levels.json", ": groups[0].levels", "1 to 6 levels; found 7" },
    { "level_no_object.json", ": groups[0].levels[0]", "expected an object" },
    { "bare_bandwidth.json", ":11: groups[0].levels[1].bandwidth", "50" },
    { "oversubscribed_below_one.json", ": groups[0].levels[1].oversubscription", "found 0.5" },
    { "mesh_without_links.json", ": groups[0].levels[0].link_bandwidth", "is missing" },
    { "links_without_mesh.json", ": groups[0].levels[0].link_bandwidth", "found fabric \"pcie4\"" },
    { "links_of_more.json", ": groups[0].levels[0].link_bandwidth", "found more" },
    { "no_bandwidth_of_nvls.json", ": groups[0].levels[0].nvls_channel_bandwidth", "is missing" },
    { "half_a_node.json", ":8: groups[0].nodes", "expected null or an integer" },
    { "unknown_cpu.json", ":5: cpu", "found \"arm\"" },
    { "unknown_key_of_group.json", ": groups[0].node", "did you mean \"nodes\"" },
    { "gpu_no_name.json", ":7: groups[0].gpu", "expected a name" },
    { "embedded_gpu_no_name.json", ":7: groups[0].gpu.name", "expected a name" },
    { "bare_price.json", ":5: price", "$/h" },
    { "name_with_escape.json", ":3: name", "plain text; found \"he?[31mre\"" },
    { "unknown_gpu.json", ":7: groups[0].gpu", "did you mean \"h100-80g-sxm\"" },
    { "unknown_profile.json", ":7: groups[0].profile", "did you mean \"h100-80g-sxm\"" },
    { "embedded_bare_memory.json", ": groups[0].gpu.memory", "80" },
    { "embedded_bad_profile.json", ": groups[0].profile.memory_efficiency", "found 88" },
    { "no_attention.json", "here-measured", "rate of flash3" },
};

START_TEST(an_error_in_a_cluster_file_names_line_and_key)
{
    char path[128];
    struct system system;
    struct err err = { 0 };
    snprintf(path, sizeof path, "tests/fixtures/cluster/%s", cluster_faults[_i].file);
    ck_assert(!system_load(path, "megatron-core", 2, &system, &err));
    check_fault(&cluster_faults[_i], &err);
}
END_TEST

static const struct fault profile_faults[] = {
    { "unknown_kernel.json", ":11: attention.flash4", "did you mean" },
    { "unfused_rate.json", ":11: attention.unfused", "is not a known key" },
    { "rate_no_object.json", ":11: attention.flash2", "expected an object" },
    { "rate_without_seq.json", ":11: attention.flash2.half_seq", "is missing" },
    { "attention_no_object.json", ":10: attention", "expected an object" },
    { "tile_of_two.json", ":10: gemm_tiles[1]", "like [128, 64, 0.9]" },
    { "tile_of_half_a_row.json", ":10: gemm_tiles[0]", "like [128, 64, 0.9]" },
    { "tile_too_good.json", ":10: gemm_tiles[0]", "like [128, 64, 0.9]" },
    { "no_tiles.json", ":10: gemm_tiles", "1 to 8 tiles; found 0" },
    { "bare_point.json", ":10: gemm_points[1]", "245.8 TFLOP/s" },
    { "point_without_rows.json", ":10: gemm_points[1]", "expected [m, n, k, rate]" },
    { "point_without_columns.json", ":10: gemm_points[1]", "expected [m, n, k, rate]" },
    { "point_without_depth.json", ":10: gemm_points[1]", "expected [m, n, k, rate]" },
    { "point_in_bytes.json", ":10: gemm_points[0][3]", "TFLOP/s" },
    { "point_of_no_speed.json", ":10: gemm_points[0][3]", "above 0" },
    { "points_no_list.json", ":10: gemm_points", "expected a list" },
    { "curves_no_list.json", ":10: collectives", "expected a list" },
    { "curve_of_all.json", ":10: collectives[0].collective", "one of all_reduce, all_gather" },
    { "curve_without_points.json", ":10: collectives[0].points", "1 to 40 points; found 0" },
    { "curve_of_bare_time.json", ":10: collectives[0].points[0]", "92.2 us" },
    { "curve_that_falls_back.json", ":10: collectives[1].points[1]", "larger size" },
    { "curve_of_no_time.json", ":10: collectives[0].points[0]", "above 0" },
    { "curve_of_no_bytes.json", ":10: collectives[0].points[0]", "above 0" },
    { "fitted_on_number.json", ":10: fitted_on[1]", "id of a measured row" },
    { "fitted_on_text.json", ":10: fitted_on", "expected a list" },
    { "fitted_on_long_id.json", ":10: fitted_on[0]", "at most 39 bytes; found 40" },
    { "fitted_on_too_many.json", ":10: fitted_on", "at most 1024 rows; found 1025" },
    { "residuals_list.json", ":10: residuals", "expected an object" },
    { "provenance_text.json", ":10: provenance", "expected an object" },
    { "provenance_word.json", ":10: provenance.products", "found \"guessed\"" },
    { "provenance_group.json", ":10: provenance.product", "did you mean \"products\"" },
    { "disturbed_number.json", ":10: disturbed", "expected an object" },
    { "disturbed_without_share.json", ":10: disturbed.core_share", "is missing" },
    { "disturbed_too_much.json", ":10: disturbed.core_share", "found 1.5" },
    { "efficiency_above_one.json", ":7: gemm_efficiency", "found 80" },
    { "bare_kernel.json", ":10: kernel", "us" },
};

START_TEST(an_error_in_a_profile_file_names_line_and_key)
{
    char path[128];
    struct profile profile;
    struct err err = { 0 };
    snprintf(path, sizeof path, "tests/fixtures/profile/%s", profile_faults[_i].file);
    ck_assert(!profile_load(path, &profile, &err));
    check_fault(&profile_faults[_i], &err);
}
END_TEST

static const struct fault stack_faults[] = {
    { "unknown_kernel.json", ":5: attention", "one of unfused, flash1, flash2, flash3" },
    { "unknown_fusion.json", ":6: fused", "softmaxx" },
    { "unknown_overlap.json", ":7: overlap", "grad, param, p2p, tp" },
    { "overlap_text.json", ":7: overlap", "a list of names" },
    { "unknown_launch.json", ":7: launch", "eager, graphs" },
    { "bare_issue.json", ":7: issue", "us" },
    { "negative_slack.json", ":7: allocator_slack", "found -0.1" },
    { "unfused_op.json", ":7: unfused.norms", "norm" },
    { "unfused_key.json", ":7: unfused.norm.kernel", "kernels" },
    { "unfused_kernels.json", ":7: unfused.norm.kernels", "1 or more" },
    { "no_attention.json", "attention", "is missing" },
    { "fitted_on_number.json", ":7: fitted_on[0]", "id of a measured row" },
};

START_TEST(an_error_in_a_stack_file_names_line_and_key)
{
    char path[128];
    struct stack stack;
    struct err err = { 0 };
    snprintf(path, sizeof path, "tests/fixtures/stack/%s", stack_faults[_i].file);
    ck_assert(!stack_load(path, &stack, &err));
    check_fault(&stack_faults[_i], &err);
}
END_TEST

static const struct fault match_faults[] = {
    { "both.json", ":4: clusters[0].use", "found both" },
    { "neither.json", ":5: clusters[1].use", "found neither" },
    { "no_stacks.json", ": stacks", "found 0" },
    { "unknown_key.json", ":4: clusters[0].gpus", "did you mean \"gpu\"" },
    { "bad_model.json", ":7: models[1].norm", "one of layernorm, rmsnorm" },
    { "rule_no_object.json", ":5: clusters[1]", "expected an object" },
    { "models_no_list.json", ": models", "expected a list of up to" },
};

START_TEST(an_error_in_a_match_table_names_line_and_key)
{
    char path[128];
    struct match_table table;
    struct err err = { 0 };
    snprintf(path, sizeof path, "tests/fixtures/match/%s", match_faults[_i].file);
    ck_assert(!match_load(path, &table, &err));
    check_fault(&match_faults[_i], &err);
}
END_TEST

/* A file that is loaded alone gives the same error as when a whole system is loaded. */
START_TEST(an_error_in_a_cluster_loaded_alone_names_line_and_key)
{
    struct cluster cluster;
    struct err err = { 0 };
    const char *path = "tests/fixtures/cluster/unknown_cpu.json";
    ck_assert(!cluster_load(path, &cluster, &err));
    ck_assert_msg(strncmp(err.where, path, strlen(path)) == 0, "%s: %s", err.where, err.msg);
}
END_TEST

/* Checks the error about an unknown name. */
static void check_unknown(bool ok, const struct err *err, const char *name, const char *msg)
{
    ck_assert(!ok);
    ck_assert_int_eq(err->code, ERR_USAGE);
    ck_assert_str_eq(err->where, name);
    ck_assert_msg(strstr(err->msg, msg), "the message is %s", err->msg);
}

START_TEST(the_error_of_an_unknown_file_name_suggests_the_nearest)
{
    struct gpu gpu;
    struct cluster cluster;
    struct profile profile;
    struct stack stack;
    struct err err = { 0 };
    check_unknown(gpu_load("h100-80g-sxn", &gpu, &err), &err, "h100-80g-sxn",
                  "there is no such GPU or file; did you mean \"h100-80g-sxm\"?");
    err = (struct err){ 0 };
    check_unknown(cluster_load("dgx-h10", &cluster, &err), &err, "dgx-h10", "\"dgx-h100\"");
    err = (struct err){ 0 };
    check_unknown(profile_load("h300-sxm", &profile, &err), &err, "h300-sxm", "\"b300-sxm\"");
    err = (struct err){ 0 };
    check_unknown(stack_load("torchtitans", &stack, &err), &err, "torchtitans", "\"torchtitan\"");
    err = (struct err){ 0 };
    check_unknown(gpu_load("etch-a-sketch", &gpu, &err), &err, "etch-a-sketch",
                  "see calibration/hardware");
}
END_TEST

START_TEST(the_error_of_an_absent_path_states_that_it_is_absent)
{
    struct gpu gpu;
    struct err err = { 0 };
    ck_assert(!gpu_load("nowhere/h100.json", &gpu, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, "nowhere/h100.json");
}
END_TEST

START_TEST(a_shipped_files_name_must_equal_its_name_field)
{
    struct gpu gpu;
    struct err err = { 0 };
    setenv("SIMSEARCH_DATA", "tests/fixtures/misnamed",
           1); /* affects only this test, because Check runs each test in a child process */
    ck_assert(!gpu_load("here", &gpu, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.where, "here.json:3: name"));
    ck_assert_ptr_nonnull(strstr(err.msg, "expected \"here\""));
}
END_TEST

START_TEST(a_missing_data_folder_is_named)
{
    struct gpu gpu;
    struct err err = { 0 };
    setenv("SIMSEARCH_DATA", "tests/fixtures/gpu", 1);
    ck_assert(!gpu_load("h100", &gpu, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.where, "calibration/hardware");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("hardware: faults");
    TCase *faults = tcase_create("faults");
    setenv("SIMSEARCH_DATA", ".", 0);
    tcase_add_loop_test(faults, an_error_in_a_gpu_file_names_line_and_key, 0, LENGTH(gpu_faults));
    tcase_add_loop_test(faults, an_error_in_a_cluster_file_names_line_and_key, 0,
                        LENGTH(cluster_faults));
    tcase_add_loop_test(faults, an_error_in_a_profile_file_names_line_and_key, 0,
                        LENGTH(profile_faults));
    tcase_add_loop_test(faults, an_error_in_a_stack_file_names_line_and_key, 0,
                        LENGTH(stack_faults));
    tcase_add_test(faults, an_error_in_a_cluster_loaded_alone_names_line_and_key);
    tcase_add_loop_test(faults, an_error_in_a_match_table_names_line_and_key, 0,
                        LENGTH(match_faults));
    tcase_add_test(faults, the_error_of_an_unknown_file_name_suggests_the_nearest);
    tcase_add_test(faults, the_error_of_an_absent_path_states_that_it_is_absent);
    tcase_add_test(faults, a_shipped_files_name_must_equal_its_name_field);
    tcase_add_test(faults, a_missing_data_folder_is_named);
    suite_add_tcase(s, faults);
    return s;
}

TEST_MAIN(suite)
