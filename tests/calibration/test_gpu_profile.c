/* The cluster file that a calibration on GPUs writes, from made-up measurements. */
#include "calibration/measure/gpu_profile.h"
#include "sim/engine/simulate.h"
#include "sim/engine/tier.h"
#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct stack stack;
static double sm_hz[] = { 1.98e9, 1.6e9, 1.7e9 }, power_w[] = { 650, 700, 690 };
static struct host_op ops[] = {
    { OP_GEMM, PASS_FORWARD, "", { 4096, 4096, 4096, 1 }, { 2.0e-4, 1.9e-4, 2.2e-4 } },
    { OP_GEMM, PASS_FORWARD, "", { 8192, 4096, 4096, 1 }, { 3.9e-4, 3.8e-4, 4.1e-4 } },
};
static struct curve curve = { .collective = COLLECTIVE_ALL_REDUCE, .num_ranks = 2, .num_nodes = 1 };

static void set_up(void)
{
    struct err err = { 0 };
    ck_assert_msg(stack_load("cuda", &stack, &err), "%s: %s", err.where, err.msg);
    curve.num_points = 2;
    curve.points[0] = (struct curve_point){ .bytes = 1024, .time_s = 1e-5 };
    curve.points[1] = (struct curve_point){ .bytes = 1e8, .time_s = 5e-4 };
}

static void tear_down(void)
{
    stack_release(&stack);
}

/* Memory-bound ops on an H200 at 4.4 TB/s. Each kernel takes 2 us plus its traffic, and recording
 * events (note_s) adds 1 us to an op. The second op has two kernels. */
static struct bandwidths traffic(void)
{
    struct bandwidths traffic = { .note_s = 1e-6 };
    for (double bytes = 4096; bytes <= 1 << 30; bytes *= 4) {
        double moving_s = bytes / 4.4e12;
        traffic.at[traffic.count++] =
            (struct bandwidth_point){ "copy", 1, bytes, 2e-6, 3e-6 + moving_s };
        traffic.at[traffic.count++] =
            (struct bandwidth_point){ "square_sum", 2, bytes, 2e-6, 5e-6 + moving_s };
    }
    return traffic;
}

static struct host_measured measured_on(int num_ranks)
{
    return (struct host_measured){
        .num_ranks = num_ranks,
        .ops = { .at = ops, .count = 2, .room = 2 },
        .curves = &curve,
        .num_curves = num_ranks > 1,
        .launch = { .issue_s = 3e-6, .kernel_s = 1.5e-6, .graph_kernel_s = 1.2e-6 },
        .copies = { 55e9, 50e9, 90e9 },
        .copy_bytes_per_s = 4.3e12,
        .overlaps = { .at = { { .slowdown = { 1.2, 1.3 } } }, .count = 1 }
    };
}

static struct gpu_log log_of(const char *name)
{
    struct gpu_log log = { .sm_hz = sm_hz, .power_w = power_w, .num_readings = 3 };
    snprintf(log.words.gpu, sizeof log.words.gpu, "%s", name);
    snprintf(log.words.driver, sizeof log.words.driver, "580.1");
    return log;
}

static struct system loaded(const struct host_measured *measured)
{
    struct err err = { 0 };
    struct system system;
    struct gpu_log log = log_of("NVIDIA H200");
    json_t *json = gpu_cluster_json(measured, &log, &stack, &err);
    ck_assert_msg(json != NULL, "%s: %s", err.where, err.msg);
    char path[] = "/tmp/test_gpu_profile.XXXXXX";
    close(mkstemp(path));
    ck_assert_int_eq(json_dump_file(json, path, 0), 0);
    json_decref(json);
    bool ok = system_load(path, NULL, 1, &system, &err);
    unlink(path);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    return system;
}

START_TEST(the_file_has_the_datasheet_and_the_measurements)
{
    struct host_measured measured = measured_on(1);
    struct system system = loaded(&measured);
    ck_assert_str_eq(system.gpu.name, "h200-141g-sxm");
    ck_assert_str_eq(system.stack.name, "cuda");
    ck_assert_double_eq(system.stack.host.issue_s, 3e-6);
    ck_assert(stack.errors.source > 0 && system.stack.errors.source == 0);
    struct system shipped = system;
    shipped.stack = stack;
    shipped.profile.measured = true; /* these values were measured with other software */
    const struct model dense = { .layers = 1 };
    ck_assert_int_eq(system_tier(&system, &dense), TIER_SEEN);
    ck_assert_int_eq(system_tier(&shipped, &dense), TIER_NEW_STACK);
    ck_assert_double_eq(system.stack.host.graph_kernel_s, 1.2e-6);
    ck_assert_double_eq_tol(system.profile.host_copy_efficiency, 45e9 / system.gpu.pcie_bytes_per_s,
                            1e-9);
    ck_assert(system.profile.measured);
    ck_assert_int_eq(system.profile.num_kernels, 1);
    ck_assert_double_eq_tol(kernel_s(&system.profile.kernels[0], ops[0].size), 2.0e-4, 1e-8);
    ck_assert_double_eq_tol(system.profile.memory_efficiency, 4.3e12 / 4.8e12, 0.01);
    system_release(&system);
}
END_TEST

START_TEST(rate_and_latency_are_fitted_to_all_memory_bound_ops)
{
    struct host_measured measured = measured_on(1);
    measured.traffic = traffic();
    struct system system = loaded(&measured);
    ck_assert_double_eq_tol(system.profile.memory_efficiency, 4.4e12 / 4.8e12, 1e-4);
    ck_assert_double_eq_tol(system.profile.kernel_s, 2e-6, 1e-10);
    ck_assert_double_eq_tol(bandwidth_fit(&measured.traffic).median_error, 0, 1e-9);
    system_release(&system);
}
END_TEST

/* The slowdown of products is the mean over the collectives that run at the same time. Times with
 * other work, or with fewer thread blocks of a collective, only affect the residuals. */
START_TEST(the_slowdown_is_the_mean_over_products_during_all_collectives)
{
    struct host_overlaps overlaps = {
        .at = { { WORK_PRODUCTS, COMM_ALL_REDUCE, 0, { 1.2, 1.4 } },
                { WORK_PRODUCTS, COMM_ALL_GATHER, 0, { 1.4, 2 } },
                { WORK_ATTENTION, COMM_ALL_REDUCE, 0, { 5, 5 } },
                { WORK_PRODUCTS, COMM_ALL_REDUCE, 4, { 9, 9 } } },
        .count = 4,
    };
    struct host_slowdown mean = host_overlaps_mean(&overlaps);
    ck_assert_double_eq_tol(mean.compute, 1.3, 1e-12);
    ck_assert_double_eq_tol(mean.comm, 1.7, 1e-12);
    overlaps.count = 0;
    ck_assert_double_eq(host_overlaps_mean(&overlaps).compute, 1);
}
END_TEST

/* One rank runs no collectives, so the constants of collectives stay those of the shipped profile.
 */
START_TEST(values_that_one_rank_cannot_measure_stay_as_shipped)
{
    struct host_measured alone = measured_on(1), two = measured_on(2);
    struct system of_one = loaded(&alone), of_two = loaded(&two);
    ck_assert_double_eq(of_one.profile.overlap_compute_slowdown, 2);
    ck_assert_double_eq(of_two.profile.overlap_compute_slowdown, 1.2);
    ck_assert_int_eq(of_two.profile.num_curves, 1);
    system_release(&of_one);
    system_release(&of_two);
}
END_TEST

START_TEST(plans_can_be_predicted_with_the_file)
{
    struct err err = { 0 };
    struct host_measured measured = measured_on(1);
    struct system system = loaded(&measured);
    struct model model;
    struct arena arena = { 0 };
    struct plan plan;
    ck_assert(model_load("gpt2", &model, &err));
    ck_assert(plan_parse("mb8", &arena, &plan, &err));
    plan.dp = 1;
    struct evaluator *evaluator = evaluator_new(&system, &model);
    struct prediction prediction = evaluate(evaluator, &plan);
    ck_assert(prediction.step_s > 0 && prediction.mfu > 0 && prediction.mfu < 1);
    evaluator_free(evaluator);
    arena_release(&arena);
    system_release(&system);
}
END_TEST

START_TEST(a_gpu_without_a_datasheet_is_refused_by_name)
{
    struct err err = { 0 };
    struct host_measured measured = measured_on(1);
    struct gpu_log log = log_of("NVIDIA Unheard Of");
    ck_assert_ptr_null(gpu_cluster_json(&measured, &log, &stack, &err));
    ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
    ck_assert(strstr(err.msg, "\"NVIDIA Unheard Of\"") != NULL);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("gpu_profile");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, the_file_has_the_datasheet_and_the_measurements);
    tcase_add_test(tc, rate_and_latency_are_fitted_to_all_memory_bound_ops);
    tcase_add_test(tc, the_slowdown_is_the_mean_over_products_during_all_collectives);
    tcase_add_test(tc, values_that_one_rank_cannot_measure_stay_as_shipped);
    tcase_add_test(tc, plans_can_be_predicted_with_the_file);
    tcase_add_test(tc, a_gpu_without_a_datasheet_is_refused_by_name);
    Suite *s = suite_create("calibration/measure/gpu_profile");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
