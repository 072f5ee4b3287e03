#include "tests/testing.h"

#include "base/file.h"
#include "base/json.h"
#include "sim/cost/datafile.h"
#include "sim/cost/hardware.h"
#include "sim/cost/match.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each shipped file of a folder, in the order of their names. */
static void for_each_file(const struct datafile_kind *kind, void (*check)(const char *name))
{
    char folder[PATH_MAX];
    size_t count;
    ck_assert(file_data_folder(kind->folder, folder, sizeof folder));
    char **names = file_list_json(folder, &count);
    ck_assert_uint_gt(count, 0);
    for (size_t i = 0; i < count; i++) {
        check(names[i]);
        free(names[i]);
    }
    free(names);
}

static void check_ok(bool ok, const struct err *err)
{
    ck_assert_msg(ok, "%s: %s", err->where, err->msg);
}

/* As a file would hold it: written out and parsed again. */
static json_t *through_text(json_t *object)
{
    char *text = json_text(object, 2);
    json_t *parsed = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(parsed);
    free(text);
    json_decref(object);
    return parsed;
}

static void check_gpu_comes_back(const char *name)
{
    struct gpu gpu, again;
    struct err err = { 0 };
    check_ok(gpu_load(name, &gpu, &err), &err);
    json_t *written = through_text(gpu_write(&gpu));
    check_ok(gpu_read(written, &again, &err), &err);
    ck_assert_mem_eq(&gpu, &again, sizeof gpu);
    json_decref(written);
}

START_TEST(every_gpu_survives_being_written_and_read)
{
    for_each_file(&gpu_files, check_gpu_comes_back);
}
END_TEST

static void check_cluster_comes_back(const char *name)
{
    struct cluster cluster, again;
    struct err err = { 0 };
    check_ok(cluster_load(name, &cluster, &err), &err);
    json_t *written = through_text(cluster_write(&cluster));
    check_ok(cluster_read(written, &again, &err), &err);
    ck_assert_mem_eq(&cluster, &again, sizeof cluster);
    json_decref(written);
}

START_TEST(every_cluster_survives_being_written_and_read)
{
    for_each_file(&cluster_files, check_cluster_comes_back);
}
END_TEST

/* Compares rows and empties them, so that what is left can be compared as bytes. */
static void check_fitted(char (**a)[40], int num_a, char (**b)[40], int num_b)
{
    ck_assert_int_eq(num_a, num_b);
    ck_assert(num_a == 0 || memcmp(*a, *b, (size_t)num_a * sizeof **a) == 0);
    free(*a);
    free(*b);
    *a = *b = NULL;
}

static void check_profile_comes_back(const char *name)
{
    struct profile profile, again;
    struct err err = { 0 };
    check_ok(profile_load(name, &profile, &err), &err);
    json_t *written = through_text(profile_write(&profile));
    check_ok(profile_read(written, &again, &err), &err);
    ck_assert_int_eq(profile.num_gemm_points, again.num_gemm_points);
    size_t bytes = (size_t)profile.num_gemm_points * sizeof *profile.gemm_points;
    ck_assert(bytes == 0 || memcmp(profile.gemm_points, again.gemm_points, bytes) == 0);
    free(profile.gemm_points);
    free(again.gemm_points);
    profile.gemm_points = again.gemm_points = NULL;
    ck_assert_int_eq(profile.num_curves, again.num_curves);
    bytes = (size_t)profile.num_curves * sizeof *profile.curves;
    ck_assert(bytes == 0 || memcmp(profile.curves, again.curves, bytes) == 0);
    free(profile.curves);
    free(again.curves);
    profile.curves = again.curves = NULL;
    check_fitted(&profile.fitted, profile.num_fitted, &again.fitted, again.num_fitted);
    ck_assert_mem_eq(&profile, &again, sizeof profile);
    json_decref(written);
}

START_TEST(every_profile_survives_being_written_and_read)
{
    for_each_file(&profile_files, check_profile_comes_back);
}
END_TEST

static void check_stack_comes_back(const char *name)
{
    struct stack stack, again;
    struct err err = { 0 };
    check_ok(stack_load(name, &stack, &err), &err);
    json_t *written = through_text(stack_write(&stack));
    check_ok(stack_read(written, &again, &err), &err);
    check_fitted(&stack.fitted, stack.num_fitted, &again.fitted, again.num_fitted);
    ck_assert_mem_eq(&stack, &again, sizeof stack);
    json_decref(written);
}

START_TEST(every_stack_survives_being_written_and_read)
{
    for_each_file(&stack_files, check_stack_comes_back);
}
END_TEST

static void check_gpu_is_plausible(const char *name)
{
    struct gpu gpu;
    struct err err = { 0 };
    check_ok(gpu_load(name, &gpu, &err), &err);
    double fp16 = gpu.peak_flops_per_s[DTYPE_FP16];
    /* FLOPs an SM issues in a cycle are a power of two: 1024 (Volta) to 8192 (Blackwell). */
    double per_cycle = fp16 / (gpu.num_sms * gpu.clock_hz);
    double nearest = 512;
    while (nearest * 1.5 < per_cycle)
        nearest *= 2;
    ck_assert_double_eq_tol(per_cycle / nearest, 1.0, 0.01);
    ck_assert_double_gt(gpu.memory_bytes_per_s, 5e11);
    ck_assert(*gpu.source);
}

START_TEST(peaks_are_tensor_cores_times_clock)
{
    for_each_file(&gpu_files, check_gpu_is_plausible);
}
END_TEST

static void check_system(const char *name)
{
    struct system system;
    struct err err = { 0 };
    check_ok(system_load(name, "megatron-core", 4, &system, &err), &err);
    ck_assert_str_eq(system.gpu.name, system.cluster.gpu_name);
    ck_assert_str_eq(system.profile.name, system.cluster.profile_name);
    ck_assert_int_ge(cluster_node_size(&system.cluster), 4);
    for (int i = 0; i < system.cluster.num_levels; i++) {
        const struct level *level = &system.cluster.levels[i];
        ck_assert_double_le(
            level->channels * level->channel_bytes_per_s,
            level->bytes_per_s *
                (i == 0 ? 1 : level->nics_per_gpu * cluster_node_size(&system.cluster)));
    }
    system_release(&system);
}

START_TEST(every_cluster_has_its_gpu_and_profile_and_no_faster_channels_than_links)
{
    for_each_file(&cluster_files, check_system);
}
END_TEST

START_TEST(a_gpu_answers_to_the_words_of_measured_rows_in_any_case)
{
    static const char *const words[][2] = {
        { "A100-80GB-SXM", "a100-80g-sxm" },
        { "a100-80gb-sxm", "a100-80g-sxm" },
        { "h100", "h100-80g-sxm" },
        { "H100-80G-SXM", "h100-80g-sxm" },
        { "H200-141GB-SXM", "h200-141g-sxm" },
        { "V100-16GB-SXM", "v100-16g-sxm" },
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct gpu gpu;
        struct err err = { 0 };
        check_ok(gpu_load(words[i][0], &gpu, &err), &err);
        ck_assert_str_eq(gpu.name, words[i][1]);
    }
}
END_TEST

START_TEST(a_profile_answers_to_the_words_of_its_gpu)
{
    struct profile profile;
    struct err err = { 0 };
    check_ok(profile_load("h100-sxm", &profile, &err), &err);
    ck_assert_str_eq(profile.name, "h100-80g-sxm");
    profile_release(&profile);
}
END_TEST

START_TEST(quantities_come_in_base_units)
{
    struct system system;
    struct err err = { 0 };
    check_ok(system_load("dgx-h100", "megatron-core", 1024, &system, &err), &err);
    ck_assert_double_eq(system.gpu.memory_bytes, 80 * 0x1p30);
    ck_assert_double_eq(system.gpu.peak_flops_per_s[DTYPE_BF16], 989.4e12);
    ck_assert_double_eq(system.cluster.levels[1].bytes_per_s, 50e9);
    ck_assert_double_eq(system.cluster.levels[1].latency_s, 5e-6);
    ck_assert_double_eq(system.cluster.price_per_gpu_h, 2.95);
    ck_assert_int_eq(system.cluster.num_nodes, 0);
    ck_assert(system.stack.overlaps & 1u << OVERLAP_P2P);
    system_release(&system);
}
END_TEST

START_TEST(flash_attention_3_becomes_2_on_ampere_and_none_on_volta)
{
    struct stack stack = { .attention = ATTENTION_FLASH3 };
    struct gpu gpu = { .arch = ARCH_HOPPER };
    ck_assert_int_eq(stack_attention(&stack, &gpu), ATTENTION_FLASH3);
    gpu.arch = ARCH_AMPERE;
    ck_assert_int_eq(stack_attention(&stack, &gpu), ATTENTION_FLASH2);
    gpu.arch = ARCH_VOLTA;
    ck_assert_int_eq(stack_attention(&stack, &gpu), ATTENTION_UNFUSED);
    stack.attention = ATTENTION_FLASH1;
    gpu.arch = ARCH_HOPPER;
    ck_assert_int_eq(stack_attention(&stack, &gpu), ATTENTION_FLASH1);
}
END_TEST

START_TEST(an_absent_attention_kernel_takes_the_rate_of_the_nearest)
{
    struct profile profile;
    struct err err = { 0 };
    check_ok(profile_load("tests/fixtures/profile/minimal.json", &profile, &err), &err);
    ck_assert_double_eq(profile.attention[ATTENTION_FLASH1].forward_efficiency, 0.6);
    ck_assert_double_eq(profile.attention[ATTENTION_FLASH3].forward_efficiency, 0.6);
    profile_release(&profile);
}
END_TEST

START_TEST(a_file_may_leave_out_what_has_a_default)
{
    struct gpu gpu;
    struct profile profile;
    struct stack stack;
    struct err err = { 0 };
    check_ok(gpu_load("tests/fixtures/gpu/minimal.json", &gpu, &err), &err);
    ck_assert_int_eq(gpu.arch, ARCH_HOPPER); /* it has an fp8 peak */
    check_ok(profile_load("tests/fixtures/profile/minimal.json", &profile, &err), &err);
    ck_assert_double_eq(profile.overlap_compute_slowdown, 1.15);
    ck_assert_int_eq(profile.num_gemm_tiles, 1);
    check_ok(stack_load("tests/fixtures/stack/minimal.json", &stack, &err), &err);
    ck_assert_double_eq(stack.context_bytes, 1.5 * 0x1p30);
    ck_assert(stack.flash_default);
    profile_release(&profile);
    stack_release(&stack);
}
END_TEST

START_TEST(one_file_may_hold_cluster_gpu_and_profile)
{
    struct system system;
    struct err err = { 0 };
    check_ok(system_load("tests/fixtures/cluster/embedded.json", "megatron-core", 2, &system, &err),
             &err);
    ck_assert_str_eq(system.gpu.name, "here");
    ck_assert_str_eq(system.profile.name, "here-measured");
    ck_assert_int_eq(system.profile.num_gemm_points, 1);
    ck_assert(system.profile.measured);
    system_release(&system);
}
END_TEST

/* A broken file, and what is said about it. */
struct fault {
    const char *file, *where, *msg;
};

static void check_fault(const struct fault *fault, const struct err *err)
{
    ck_assert_msg(err->code == ERR_INPUT, "%s: code %d: %s", fault->file, (int)err->code, err->msg);
    ck_assert_msg(strstr(err->where, fault->where), "%s: where is %s", fault->file, err->where);
    ck_assert_msg(strstr(err->msg, fault->msg), "%s: msg is %s", fault->file, err->msg);
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
    { "source_no_text.json", ": sources.memory", "expected text" },
    { "sources_no_object.json", ": sources", "expected an object" },
    { "negative_sms.json", ": num_sms", "found -132" },
    { "not_json.json", "not_json.json:3", "not valid JSON" },
};

START_TEST(a_broken_gpu_file_is_blamed_by_line_and_key)
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
    { "no_bandwidth_of_nvls.json", ": groups[0].levels[0].nvls_channel_bandwidth", "is missing" },
    { "half_a_node.json", ":8: groups[0].nodes", "expected null or an integer" },
    { "unknown_cpu.json", ":5: cpu", "found \"arm\"" },
    { "unknown_key_of_group.json", ": groups[0].node", "did you mean \"nodes\"" },
    { "gpu_no_name.json", ":7: groups[0].gpu", "expected a name" },
    { "embedded_gpu_no_name.json", ":7: groups[0].gpu.name", "expected a name" },
    { "bare_price.json", ":5: price", "$/h" },
    { "unknown_gpu.json", ":7: groups[0].gpu", "did you mean \"h100-80g-sxm\"" },
    { "unknown_profile.json", ":7: groups[0].profile", "did you mean \"h100-80g-sxm\"" },
    { "embedded_bare_memory.json", ": groups[0].gpu.memory", "80" },
    { "embedded_bad_profile.json", ": groups[0].profile.memory_efficiency", "found 88" },
    { "no_attention.json", "here-measured", "rate of flash3" },
};

START_TEST(a_broken_cluster_file_is_blamed_by_line_and_key)
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
    { "point_in_bytes.json", ":10: gemm_points[0][3]", "TFLOP/s" },
    { "point_of_no_speed.json", ":10: gemm_points[0][3]", "above 0" },
    { "points_no_list.json", ":10: gemm_points", "expected a list" },
    { "curves_no_list.json", ":10: collectives", "expected a list" },
    { "curve_of_all.json", ":10: collectives[0].collective", "one of all_reduce, all_gather" },
    { "curve_without_points.json", ":10: collectives[0].points", "1 to 40 points; found 0" },
    { "curve_of_bare_time.json", ":10: collectives[0].points[0]", "92.2 us" },
    { "curve_that_falls_back.json", ":10: collectives[1].points[1]", "larger size" },
    { "curve_of_no_time.json", ":10: collectives[0].points[0]", "above 0" },
    { "fitted_on_number.json", ":10: fitted_on[1]", "id of a measured row" },
    { "fitted_on_text.json", ":10: fitted_on", "expected a list" },
    { "fitted_on_long_id.json", ":10: fitted_on[0]", "at most 39 bytes; found 40" },
    { "fitted_on_too_many.json", ":10: fitted_on", "at most 1024 rows; found 1025" },
    { "residuals_list.json", ":10: residuals", "expected an object" },
    { "efficiency_above_one.json", ":7: gemm_efficiency", "found 80" },
    { "bare_kernel.json", ":10: kernel", "us" },
};

START_TEST(a_broken_profile_file_is_blamed_by_line_and_key)
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
    { "no_attention.json", "attention", "is missing" },
    { "fitted_on_number.json", ":7: fitted_on[0]", "id of a measured row" },
};

START_TEST(a_broken_stack_file_is_blamed_by_line_and_key)
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
    { "rule_no_object.json", ":5: clusters[1]", "expected an object" },
};

START_TEST(a_broken_match_table_is_blamed_by_line_and_key)
{
    char path[128];
    struct match_table table;
    struct err err = { 0 };
    snprintf(path, sizeof path, "tests/fixtures/match/%s", match_faults[_i].file);
    ck_assert(!match_load(path, &table, &err));
    check_fault(&match_faults[_i], &err);
}
END_TEST

/* A name that no file has, and what is said about it. */
static void check_unknown(bool ok, const struct err *err, const char *name, const char *msg)
{
    ck_assert(!ok);
    ck_assert_int_eq(err->code, ERR_USAGE);
    ck_assert_str_eq(err->where, name);
    ck_assert_msg(strstr(err->msg, msg), "msg is %s", err->msg);
}

START_TEST(an_unknown_name_is_told_the_nearest)
{
    struct gpu gpu;
    struct cluster cluster;
    struct profile profile;
    struct stack stack;
    struct err err = { 0 };
    check_unknown(gpu_load("h100-80g-sxn", &gpu, &err), &err, "h100-80g-sxn",
                  "no GPU or file is called that; did you mean \"h100-80g-sxm\"?");
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

START_TEST(a_path_that_is_not_there_is_told_as_such)
{
    struct gpu gpu;
    struct err err = { 0 };
    ck_assert(!gpu_load("nowhere/h100.json", &gpu, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, "nowhere/h100.json");
}
END_TEST

START_TEST(a_shipped_file_must_be_called_what_it_says)
{
    struct gpu gpu;
    struct err err = { 0 };
    setenv("SIMSEARCH_DATA", "tests/fixtures/misnamed", 1); /* Check forks: gone after the test */
    ck_assert(!gpu_load("here", &gpu, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.where, "here.json:3: name"));
    ck_assert_ptr_nonnull(strstr(err.msg, "expected \"here\""));
}
END_TEST

START_TEST(a_missing_data_folder_is_told_by_name)
{
    struct gpu gpu;
    struct err err = { 0 };
    setenv("SIMSEARCH_DATA", "tests/fixtures/gpu", 1);
    ck_assert(!gpu_load("h100", &gpu, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.where, "calibration/hardware");
}
END_TEST

START_TEST(a_cluster_has_no_more_gpus_than_its_nodes)
{
    static const struct {
        const char *cluster;
        int num_gpus;
        enum err_code code;
    } cases[] = {
        { "tests/fixtures/cluster/four_nodes.json", 8, ERR_NONE },
        { "tests/fixtures/cluster/four_nodes.json", 9, ERR_INFEASIBLE },
        { "tests/fixtures/cluster/one_level.json", 2, ERR_NONE },
        { "tests/fixtures/cluster/one_level.json", 3, ERR_INFEASIBLE },
        { "dgx-h100", 131072, ERR_NONE },
        { "dgx-h100", 0, ERR_USAGE },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct system system;
        struct err err = { 0 };
        bool ok = system_load(cases[i].cluster, "megatron-core", cases[i].num_gpus, &system, &err);
        ck_assert_int_eq(err.code, cases[i].code);
        ck_assert_str_eq(err.where, ok ? "" : "gpus");
        if (ok)
            system_release(&system);
    }
}
END_TEST

START_TEST(a_pattern_is_found_anywhere_in_any_case)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {
        { "*", "", true },
        { "*", "anything", true },
        { "", "", true },
        { "", "anything", false },
        { "hdr", "8x HDR200", true },
        { "8x*HDR", "DGX, 8x Mellanox HDR200", true },
        { "8x*HDR", "HDR200 8x", false },
        { "A|B", "xbx", true },
        { "A|B", "xyz", false },
        { "A|", "", true },
        { "|A", "xyz", false },
        { "400*per GPU|RoCE", "RDMA 400Gb/s per GPU", true },
        { "longer than the text", "text", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(match_text(cases[i].pattern, cases[i].text) == cases[i].matches, "%s in %s",
                      cases[i].pattern, cases[i].text);
}
END_TEST

/* Words of measured rows; "" for cluster: skipped. */
static const struct {
    struct match_row row;
    const char *cluster, *stack;
    bool is_assumed;
} matches[] = {
    { { "A100-80GB-SXM", "DGX A100 nodes (Selene), 8x Mellanox HDR200 IB HCAs/node, fat tree",
        "Megatron-LM 2021 (SC21)", 8, NULL },
      "dgx-a100-80g",
      "megatron-2021",
      false },
    { { "A100-80GB-SXM", "one NVSwitch node", "Megatron-DeepSpeed", 8, NULL },
      "dgx-a100-80g",
      "megatron-deepspeed",
      false },
    { { "A100-80GB-SXM", "Jean Zay: 8xA100-80GB/node NVLink, 4x OmniPath 100Gb/s per node",
        "Megatron-DeepSpeed (BigScience)", 8, NULL },
      "jean-zay-a100-80g",
      "bigscience",
      false },
    { { "A100-80GB-SXM", "RoCE RDMA (speed not stated)", "Megatron-LM fork, schedule ZB-1p", 8,
        NULL },
      "dgx-a100-80g",
      "megatron-2023",
      true },
    { { "A100-80GB-SXM", "4x HDR200", "Megatron Core 0.8", 8, NULL },
      "hgx-a100-80g-4hdr",
      "megatron-core",
      false },
    { { "A100-80GB-SXM", "400 Gbps per node", "torchtitan", 8, NULL },
      "p4de-a100-80g",
      "torchtitan",
      true },
    { { "A100-80GB-SXM", "", "llm.c", 4, NULL }, "hgx-a100-80g-4", "llmc", true },
    { { "A100-40GB-SXM", "1600 Gbps/node RoCE", "Composer + PyTorch FSDP (llm-foundry)", 8, NULL },
      "dgx-a100-40g",
      "llm-foundry",
      true },
    { { "A100-80GB-PCIe", "PCIe only inside node", "Megatron-LM (version not stated)", 8, NULL },
      "a100-pcie-8",
      "megatron-core",
      true },
    { { "H100-80GB-SXM", "RDMA 400Gb/s per GPU", "NeMo 24.09", 8, NULL },
      "dgx-h100",
      "nemo",
      false },
    { { "H100-80GB-SXM", "", "NeMo AutoModel (PyTorch FSDP2)", 8, NULL },
      "dgx-h100",
      "torchtitan",
      true },
    { { "H100-80GB-SXM", "1:7 oversubscription", "MaxText (JAX/XLA)", 8, NULL },
      "dgx-h100-over7",
      "xla",
      true },
    { { "H800-80GB", "NVSwitch node", "Megatron-Core", 8, NULL },
      "h800-8",
      "megatron-core",
      false },
    { { "H200-141GB-SXM", "", "Megatron-Bridge", 8, NULL }, "dgx-h200", "nemo", true },
    { { "B200-SXM", "single node", "NeMo 25.04", 8, NULL }, "dgx-b200", "nemo", false },
    { { "V100-32GB-SXM", "Jean Zay V100: 4x OmniPath 100Gb/s", "Megatron-LM 2021-05", 4, NULL },
      "jean-zay-v100",
      "megatron-2021",
      false },
    { { "V100-16GB-SXM", "", "", 0, NULL }, "dgx1-v100-16g", "megatron-core", true },
    { { "GB200", "NVL72", "NeMo 25.05", 4, NULL }, "gb200-nvl72", "nemo", false },
    { { "GB200", "", "NeMo 25.05", 4, NULL }, "gb200-nvl72", "nemo", true },
    { { "GB300", "", "NeMo 25.09", 4, NULL }, "gb300-nvl72", "nemo", true },
    { { "B300-SXM", "", "NeMo 25.09", 8, NULL }, "dgx-b300", "nemo", true },
    { { "H100-80GB-SXM", "RoCE", "torchtitan", 8, NULL }, "hgx-h100-roce", "torchtitan", true },
    { { "MI300X", "RoCE", "torchtitan", 8, NULL }, "", "torchtitan", false },
    { { "H100-96GB-SXM(HBM2e,500W)", "RoCE", "torchtitan", 8, NULL },
      "meta-grand-teton",
      "torchtitan",
      false },
    { { "TPUv4", "", "MaxText", 4, NULL }, "", "xla", false },
};

START_TEST(a_measured_row_means_a_cluster_and_a_stack)
{
    struct match_table table;
    struct match match;
    struct err err = { 0 };
    check_ok(match_load(NULL, &table, &err), &err);
    bool ok = match_find(&table, &matches[_i].row, &match);
    ck_assert_str_eq(match.cluster, matches[_i].cluster);
    ck_assert_str_eq(match.stack, matches[_i].stack);
    ck_assert_int_eq(ok, *matches[_i].cluster != '\0');
    ck_assert_int_eq(ok, *match.skip == '\0');
    bool is_assumed = *match.cluster_assumption || *match.stack_assumption;
    ck_assert_int_eq(is_assumed, matches[_i].is_assumed);
    match_release(&table);
}
END_TEST

START_TEST(every_rule_names_a_file_that_is_there)
{
    struct match_table table;
    struct err err = { 0 };
    check_ok(match_load(NULL, &table, &err), &err);
    for (int i = 0; i < table.clusters.count; i++) {
        struct cluster cluster;
        const char *name = table.clusters.at[i].use;
        check_ok(!*name || cluster_load(name, &cluster, &err), &err);
    }
    for (int i = 0; i < table.stacks.count; i++) {
        struct stack stack;
        check_ok(stack_load(table.stacks.at[i].use, &stack, &err), &err);
        stack_release(&stack);
    }
    match_release(&table);
}
END_TEST

START_TEST(words_that_no_rule_knows_are_skipped_with_a_reason)
{
    struct match_table table;
    struct match match;
    struct err err = { 0 };
    check_ok(match_load("tests/fixtures/match/two_rules.json", &table, &err), &err);
    struct match_row row = { "V100-32GB-SXM", "", "", 8, NULL };
    ck_assert(!match_find(&table, &row, &match));
    ck_assert_ptr_nonnull(strstr(match.skip, "no rule"));
    row.gpus_per_node = 4;
    ck_assert(match_find(&table, &row, &match));
    ck_assert_str_eq(match.cluster, "jean-zay-v100");
    match_release(&table);
}
END_TEST

#define ADD_LOOP(tcase, test, cases) \
    tcase_add_loop_test(tcase, test, 0, (int)(sizeof cases / sizeof *cases))

static Suite *hardware_suite(void)
{
    Suite *suite = suite_create("hardware");
    TCase *files = tcase_create("files");
    TCase *faults = tcase_create("faults");
    TCase *words = tcase_create("words");
    setenv("SIMSEARCH_DATA", ".", 0);
    tcase_add_test(files, every_gpu_survives_being_written_and_read);
    tcase_add_test(files, every_cluster_survives_being_written_and_read);
    tcase_add_test(files, every_profile_survives_being_written_and_read);
    tcase_add_test(files, every_stack_survives_being_written_and_read);
    tcase_add_test(files, peaks_are_tensor_cores_times_clock);
    tcase_add_test(files, every_cluster_has_its_gpu_and_profile_and_no_faster_channels_than_links);
    tcase_add_test(files, a_gpu_answers_to_the_words_of_measured_rows_in_any_case);
    tcase_add_test(files, a_profile_answers_to_the_words_of_its_gpu);
    tcase_add_test(files, quantities_come_in_base_units);
    tcase_add_test(files, flash_attention_3_becomes_2_on_ampere_and_none_on_volta);
    tcase_add_test(files, an_absent_attention_kernel_takes_the_rate_of_the_nearest);
    tcase_add_test(files, a_file_may_leave_out_what_has_a_default);
    tcase_add_test(files, one_file_may_hold_cluster_gpu_and_profile);
    tcase_add_test(files, a_cluster_has_no_more_gpus_than_its_nodes);
    ADD_LOOP(faults, a_broken_gpu_file_is_blamed_by_line_and_key, gpu_faults);
    ADD_LOOP(faults, a_broken_cluster_file_is_blamed_by_line_and_key, cluster_faults);
    ADD_LOOP(faults, a_broken_profile_file_is_blamed_by_line_and_key, profile_faults);
    ADD_LOOP(faults, a_broken_stack_file_is_blamed_by_line_and_key, stack_faults);
    ADD_LOOP(faults, a_broken_match_table_is_blamed_by_line_and_key, match_faults);
    tcase_add_test(faults, an_unknown_name_is_told_the_nearest);
    tcase_add_test(faults, a_path_that_is_not_there_is_told_as_such);
    tcase_add_test(faults, a_shipped_file_must_be_called_what_it_says);
    tcase_add_test(faults, a_missing_data_folder_is_told_by_name);
    tcase_add_test(words, a_pattern_is_found_anywhere_in_any_case);
    ADD_LOOP(words, a_measured_row_means_a_cluster_and_a_stack, matches);
    tcase_add_test(words, every_rule_names_a_file_that_is_there);
    tcase_add_test(words, words_that_no_rule_knows_are_skipped_with_a_reason);
    suite_add_tcase(suite, files);
    suite_add_tcase(suite, faults);
    suite_add_tcase(suite, words);
    return suite;
}

TEST_MAIN(hardware_suite)
