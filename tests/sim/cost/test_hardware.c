#include "sim/cost/hardware.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "sim/cost/datafile.h"
#include "sim/cost/unfused.h"
#include "tests/check_ok.h"
#include "tests/testing.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Calls a function for each shipped file of a folder, sorted by name. */
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

/* Writes an object as text and parses it again, as through a file. */
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

START_TEST(every_gpu_round_trips)
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

START_TEST(every_cluster_round_trips)
{
    for_each_file(&cluster_files, check_cluster_comes_back);
}
END_TEST

/* Compares rows and clears them, so that the remaining members can be compared as bytes. */
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

START_TEST(every_profile_round_trips)
{
    for_each_file(&profile_files, check_profile_comes_back);
}
END_TEST

/* Only the profiles of a host have tables of measured kernel times; no shipped profile has any. */
START_TEST(tables_of_kernels_round_trip)
{
    static const char *const tables[] = {
        "{\"op\": \"gemm\", \"points\": [[64, 32, 16, 2, \"10 us\"], [128, 32, 16, 2, \"30 us\"]]}",
        "{\"op\": \"gemm\", \"pass\": \"weight_gradient\", \"points\": [[8, 4, 2, 1, \"70 ns\"]]}",
        "{\"op\": \"norm\", \"variant\": \"rmsnorm\", \"points\": [[9, 7, 1, 1, \"2.5 ms\"]]}",
    };
    struct profile profile, again;
    struct err err = { 0 };
    check_ok(profile_load("h100-80g-sxm", &profile, &err), &err);
    profile.num_kernels = LENGTH(tables);
    profile.kernels = calloc(LENGTH(tables), sizeof *profile.kernels);
    for (int i = 0; i < LENGTH(tables); i++) {
        json_t *table = json_loads(tables[i], 0, NULL);
        check_ok(kernel_read(table, &profile.kernels[i], &err), &err);
        json_decref(table);
    }
    json_t *written = through_text(profile_write(&profile));
    check_ok(profile_read(written, &again, &err), &err);
    ck_assert_int_eq(again.num_kernels, LENGTH(tables));
    for (int i = 0; i < LENGTH(tables); i++) {
        struct kernel *one = &profile.kernels[i], *other = &again.kernels[i], all = *one;
        ck_assert_int_eq(one->num_points, other->num_points);
        ck_assert_mem_eq(one->points, other->points, (size_t)one->num_points * sizeof *one->points);
        all.points = other->points;
        ck_assert_mem_eq(&all, other, sizeof all);
    }
    json_decref(written);
    profile_release(&profile);
    profile_release(&again);
}
END_TEST

static void check_stack_comes_back(const char *name)
{
    struct stack stack, again;
    struct err err = { 0 };
    check_ok(stack_load(name, &stack, &err), &err);
    json_t *written = through_text(stack_write(&stack));
    ck_assert(!json_object_get(written, "time_ratio")); /* no ratio was learned */
    ck_assert(!json_object_get(written, "expert_time_ratio"));
    check_ok(stack_read(written, &again, &err), &err);
    check_fitted(&stack.fitted, stack.num_fitted, &again.fitted, again.num_fitted);
    ck_assert_mem_eq(&stack, &again, sizeof stack);
    json_decref(written);
}

/* A profile that has constants of another GPU must not be marked as measured. */
static void check_siblings_are_not_measured(const char *name)
{
    struct profile profile;
    struct err err = { 0 };
    check_ok(profile_load(name, &profile, &err), &err);
    const struct provenance *of = &profile.provenance;
    bool is_own = strcmp(of->products, fitted_here) == 0;
    ck_assert_msg(is_own || !profile.measured,
                  "%s is marked as measured, but its constants of products are from: %s", name,
                  of->products);
    ck_assert_msg(strstr(profile.source, "Not measured itself") == NULL || !profile.measured, "%s",
                  name);
    profile_release(&profile);
}

START_TEST(a_profile_with_another_gpus_constants_is_not_called_measured)
{
    for_each_file(&profile_files, check_siblings_are_not_measured);
}
END_TEST

static const struct {
    struct provenance of;
    const char *words;
} provenances[] = {
    { { "fitted here", "fitted here", "fitted here", "fitted here" }, "fitted here" },
    { { "sibling of a", "sibling of a", "sibling of a", "sibling of a" }, "sibling of a" },
    { { "fitted here", "datasheet", "fitted here", "datasheet" },
      "products, memory: fitted here; attention, network: datasheet" },
    { { "datasheet", "sibling of a", "sibling of b", "datasheet" },
      "products, network: datasheet; attention: sibling of a; memory: sibling of b" },
};

START_TEST(constants_of_equal_provenance_are_reported_together)
{
    struct text words = { 0 };
    provenance_words(&provenances[_i].of, &words);
    ck_assert_str_eq(text_get(&words), provenances[_i].words);
    text_release(&words);
}
END_TEST

START_TEST(a_disturbed_profile_is_marked_in_every_file)
{
    struct profile profile, again;
    struct err err = { 0 };
    check_ok(profile_load("h100-80g-sxm", &profile, &err), &err);
    profile.is_disturbed = true;
    profile.disturbed = (struct disturbance){ 0.19, 0.27, 10 };
    json_t *written = through_text(profile_write(&profile));
    check_ok(profile_read(written, &again, &err), &err);
    ck_assert(again.is_disturbed);
    ck_assert_mem_eq(&profile.disturbed, &again.disturbed, sizeof again.disturbed);
    json_decref(written);
    profile_release(&profile);
    profile_release(&again);
}
END_TEST

START_TEST(every_stack_round_trips)
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

START_TEST(a_stack_keeps_its_learned_ratios)
{
    for (int bits = 0; bits < 4; bits++) {
        struct stack stack, again;
        struct err err = { 0 };
        check_ok(stack_load("megatron-core", &stack, &err), &err);
        stack.learned.time_ratio = bits & 1 ? 1.25 : 0;
        stack.learned.expert_time_ratio = bits & 2 ? 0.75 : 0;
        json_t *written = through_text(stack_write(&stack));
        ck_assert_int_eq(json_object_get(written, "time_ratio") != NULL, bits & 1);
        ck_assert_int_eq(json_object_get(written, "expert_time_ratio") != NULL, bits >> 1);
        check_ok(stack_read(written, &again, &err), &err);
        ck_assert_double_eq(again.learned.time_ratio, stack.learned.time_ratio);
        ck_assert_double_eq(again.learned.expert_time_ratio, stack.learned.expert_time_ratio);
        json_decref(written);
        stack_release(&stack);
        stack_release(&again);
    }
}
END_TEST

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

START_TEST(a_gpu_is_recognised_by_the_words_of_measured_rows)
{
    static const char *const words[][2] = {
        { "A100-80GB-SXM", "a100-80g-sxm" },
        { "a100-80gb-sxm", "a100-80g-sxm" },
        { "h100", "h100-80g-sxm" },
        { "H100-80G-SXM", "h100-80g-sxm" },
        { "H200-141GB-SXM", "h200-141g-sxm" },
        { "V100-16GB-SXM", "v100-16g-sxm" },
    };
    for (size_t i = 0; i < LENGTH(words); i++) {
        struct gpu gpu;
        struct err err = { 0 };
        check_ok(gpu_load(words[i][0], &gpu, &err), &err);
        ck_assert_str_eq(gpu.name, words[i][1]);
    }
}
END_TEST

START_TEST(a_profile_is_recognised_by_the_words_of_its_gpu)
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

/* Ops that the file of a stack (training software) omits have default costs, and only the other ops
 * are written. */
START_TEST(a_stack_file_writes_only_non_default_unfused_costs)
{
    struct stack stack;
    struct err err = { 0 };
    check_ok(stack_load("tests/fixtures/stack/unfused_norm.json", &stack, &err), &err);
    const struct unfused *norm = &stack.unfused.of[UNFUSED_NORM];
    ck_assert_double_eq(norm->bytes, 36);
    ck_assert_double_eq(norm->values, 0);
    ck_assert_double_eq(norm->backward_kernels, 12);
    ck_assert_double_eq(stack.unfused.of[UNFUSED_ROTARY].values,
                        unfused_usual.of[UNFUSED_ROTARY].values);
    json_t *written = through_text(stack_write(&stack));
    const json_t *unfused = json_object_get(written, "unfused");
    struct unfused_ops again;
    ck_assert_uint_eq(json_object_size(unfused), 1);
    check_ok(unfused_read(unfused, &again, &err), &err);
    ck_assert_mem_eq(&again, &stack.unfused, sizeof again);
    json_decref(written);
    stack_release(&stack);
}
END_TEST

/* The numbers of kernels, and of values that they move, are those of the sources in
 * sim/cost/unfused.c. A norm has the kernels square, mean, root, product and scale, which read and
 * write a value 6 times. Rotary embedding has, for queries and for keys, the kernels negate half,
 * concatenate, two products and a sum. The softmax widens (6 bytes per value), scales, masks,
 * normalises (8 each) and narrows (6), and two kernels make the mask. */
START_TEST(unfused_ops_have_the_kernel_counts_of_their_sources)
{
    static const struct unfused_ops listed = { {
        [UNFUSED_NORM] = { 6, 0, 5, 10, 0, 10, 0, 4 },
        [UNFUSED_ROTARY] = { 8, 0, 2 * 5, 8, 0, 2 * 5, 0, 0 },
        [UNFUSED_SOFTMAX] = { 0, 6 + 3 * 8 + 6, 5 + 2, 0, 40, 5, 0, 4 },
        [UNFUSED_ACTIVATION] = { 5, 0, 2, 6, 0, 2, 0, 0 },
        [UNFUSED_GATE] = { 7, 0, 3, 9, 0, 3, 1, 0 },
        [UNFUSED_CROSS_ENTROPY] = { 1, 28, 12, 1, 16, 5, 0, 0 },
    } };
    ck_assert_mem_eq(&unfused_usual, &listed, sizeof listed);
}
END_TEST

START_TEST(flash_attention_3_is_replaced_by_2_on_ampere_and_by_none_on_volta)
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

/* The rate of attention kernel `i` if the kernels in the bit set were measured. */
static double rate_of(int i, int measured)
{
    for (int older = i; older >= ATTENTION_FLASH1; older--)
        if (measured >> older & 1)
            return 0.1 * older;
    while (!(measured >> i & 1))
        i++;
    return 0.1 * i;
}

START_TEST(every_absent_attention_kernel_has_the_next_older_or_newer_rate)
{
    for (int measured = 1 << ATTENTION_FLASH1; measured < 1 << NUM_ATTENTION_KERNELS; measured++) {
        struct profile profile;
        struct err err = { 0 };
        json_t *file = json_load_file("tests/fixtures/profile/minimal.json", 0, NULL);
        json_t *rates = json_object();
        for (int i = ATTENTION_FLASH1; i < NUM_ATTENTION_KERNELS; i++)
            if (measured >> i & 1)
                json_object_set_new(rates, attention_names[i],
                                    json_pack("{s:f, s:f, s:i}", "forward_efficiency", 0.1 * i,
                                              "backward_efficiency", 0.1 * i, "half_seq", 100));
        if (json_object_size(rates) > 0) {
            json_object_set(file, "attention", rates);
            check_ok(profile_read(file, &profile, &err), &err);
            for (int i = ATTENTION_FLASH1; i < NUM_ATTENTION_KERNELS; i++)
                ck_assert_double_eq(profile.attention[i].forward_efficiency, rate_of(i, measured));
            profile_release(&profile);
        }
        json_decref(rates);
        json_decref(file);
    }
}
END_TEST

START_TEST(a_file_may_omit_values_with_defaults)
{
    struct gpu gpu;
    struct profile profile;
    struct stack stack;
    struct err err = { 0 };
    check_ok(gpu_load("tests/fixtures/gpu/minimal.json", &gpu, &err), &err);
    ck_assert_int_eq(gpu.arch, ARCH_HOPPER); /* the GPU has a peak for fp8 */
    check_ok(profile_load("tests/fixtures/profile/minimal.json", &profile, &err), &err);
    ck_assert_double_eq(profile.overlap_compute_slowdown, 1.15);
    ck_assert_int_eq(profile.num_gemm_tiles, 1);
    check_ok(stack_load("tests/fixtures/stack/minimal.json", &stack, &err), &err);
    ck_assert_double_eq(stack.memory.context_bytes, 1.5 * 0x1p30);
    ck_assert(stack.unstated.flash_default);
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
    for (size_t i = 0; i < LENGTH(cases); i++) {
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

static Suite *hardware_suite(void)
{
    Suite *suite = suite_create("hardware");
    TCase *files = tcase_create("files");
    setenv("SIMSEARCH_DATA", ".", 0);
    tcase_add_test(files, every_gpu_round_trips);
    tcase_add_test(files, every_cluster_round_trips);
    tcase_add_test(files, every_profile_round_trips);
    tcase_add_test(files, a_profile_with_another_gpus_constants_is_not_called_measured);
    tcase_add_loop_test(files, constants_of_equal_provenance_are_reported_together, 0,
                        LENGTH(provenances));
    tcase_add_test(files, a_disturbed_profile_is_marked_in_every_file);
    tcase_add_test(files, tables_of_kernels_round_trip);
    tcase_add_test(files, a_stack_keeps_its_learned_ratios);
    tcase_add_test(files, every_stack_round_trips);
    tcase_add_test(files, peaks_are_tensor_cores_times_clock);
    tcase_add_test(files, every_cluster_has_its_gpu_and_profile_and_no_faster_channels_than_links);
    tcase_add_test(files, a_gpu_is_recognised_by_the_words_of_measured_rows);
    tcase_add_test(files, a_profile_is_recognised_by_the_words_of_its_gpu);
    tcase_add_test(files, quantities_come_in_base_units);
    tcase_add_test(files, a_stack_file_writes_only_non_default_unfused_costs);
    tcase_add_test(files, unfused_ops_have_the_kernel_counts_of_their_sources);
    tcase_add_test(files, every_absent_attention_kernel_has_the_next_older_or_newer_rate);
    tcase_add_test(files, flash_attention_3_is_replaced_by_2_on_ampere_and_by_none_on_volta);
    tcase_add_test(files, an_absent_attention_kernel_takes_the_rate_of_the_nearest);
    tcase_add_test(files, a_file_may_omit_values_with_defaults);
    tcase_add_test(files, one_file_may_hold_cluster_gpu_and_profile);
    tcase_add_test(files, a_cluster_has_no_more_gpus_than_its_nodes);
    suite_add_tcase(suite, files);
    return suite;
}

TEST_MAIN(hardware_suite)
