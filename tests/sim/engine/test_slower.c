/* A device with 95 % of the speed takes 1 / 0.95 times as long for all its own work. */
#include "sim/engine/simulate.h"
#include "sim/engine/slower.h"
#include "tests/testing.h"

#include <math.h>
#include <stdlib.h>

static const struct {
    const char *cluster, *stack, *layout;
    bool has_tables;
    int gpus;
    double least, most; /* bounds of the factor by which the step becomes longer */
} cases[] = {
    { "dgx-h100", "megatron-core", "dp1 mb1", false, 1, 1.0525, 1.0527 },
    { "dgx-h100", "megatron-core", "dp1 mb1 dtype=fp32", false, 1, 1.0525, 1.0527 },
    { "dgx-h100", "megatron-core", "tp8 mb1", false, 8, 1.02, 1.0526 }, /* links keep their speed */
    { "dgx-h100", "host", "mb1", true, 1, 1.0526,
      1.0527 }, /* a cluster file that was calibrated on a host */
    { "dgx-h100", "host", "tp8 mb1", true, 8, 1.03,
      1.0527 }, /* on a host the cores also move messages */
};

/* Adds tables of measured kernel times, as a host's profile has them: the measured times of
 * products and norms take precedence over the formulas. */
static void add_tables(struct profile *profile)
{
    static const char text[] = "[{\"op\": \"gemm\", \"points\": [[64, 64, 64, 1, \"10 us\"], [256, "
                               "64, 64, 1, \"30 us\"]]},"
                               " {\"op\": \"norm\", \"points\": [[64, 64, 1, 1, \"4 us\"]]}]";
    struct err err = { 0 };
    json_t *rows = json_loads(text, 0, NULL);
    profile->num_kernels = 2;
    profile->kernels = calloc(2, sizeof *profile->kernels);
    for (size_t i = 0; i < 2; i++)
        ck_assert(kernel_read(json_array_get(rows, i), &profile->kernels[i], &err));
    json_decref(rows);
}

static struct prediction predict(const struct system *system, const struct model *model,
                                 const struct plan *plan)
{
    struct evaluator *evaluator = evaluator_new(system, model);
    struct prediction prediction = evaluate(evaluator, plan);
    evaluator_free(evaluator);
    return prediction;
}

START_TEST(a_slower_device_takes_proportionally_longer)
{
    struct err err = { 0 };
    struct arena arena = { 0 };
    struct system system, slower, same;
    struct model model;
    struct plan plan;
    ck_assert(system_load(cases[_i].cluster, cases[_i].stack, cases[_i].gpus, &system, &err));
    ck_assert(model_load("gpt3-1.3b", &model, &err));
    ck_assert(plan_parse(cases[_i].layout, &arena, &plan, &err));
    plan.dp = 1;
    /* launches are not compared, because the host of a slower GPU is not slower */
    if (!cases[_i].has_tables)
        system.stack.host.issue_s = 0;
    if (cases[_i].has_tables)
        add_tables(&system.profile);
    system_slower(&system, 0.95, &slower);
    system_slower(&system, 1, &same);
    struct prediction before = predict(&system, &model, &plan);
    struct prediction after = predict(&slower, &model, &plan);
    double ratio =
        (after.step_s - system.stack.host.step_s) / (before.step_s - system.stack.host.step_s);
    ck_assert_msg(ratio > cases[_i].least && ratio < cases[_i].most,
                  "%s on %s: the step takes %.5f times as long", cases[_i].layout, cases[_i].stack,
                  ratio);
    ck_assert_double_eq(predict(&same, &model, &plan).step_s, before.step_s);
    system_slower_release(&slower);
    system_slower_release(&same);
    system_release(&system);
    arena_release(&arena);
}
END_TEST

/* At half the speed rates halve and times double, in measured tables and curves too. Links are
 * slower only on a host, whose cores send the messages. */
START_TEST(every_rate_and_time_of_the_device_changes)
{
    struct err err = { 0 };
    struct curve curve = { .num_points = 2,
                           .points = { { 1, 3, 0, log(3) }, { 8, 5, log(8), log(5) } } };
    struct gemm_point point = { .flops_per_s = 7 };
    for (int is_host = 0; is_host < 2; is_host++) {
        struct system system, slower;
        ck_assert(system_load("dgx-h100", is_host ? "host" : "megatron-core", 16, &system, &err));
        struct system half = system;
        half.profile.curves = &curve;
        half.profile.num_curves = 1;
        half.profile.gemm_points = &point;
        half.profile.num_gemm_points = 1;
        system_slower(&half, 0.5, &slower);
        double links = is_host ? 2 : 1;
        ck_assert_double_eq(slower.profile.gemm_points[0].flops_per_s, 3.5);
        ck_assert_double_eq(slower.profile.kernel_s, 2 * system.profile.kernel_s);
        ck_assert_double_eq(slower.gpu.memory_bytes_per_s, system.gpu.memory_bytes_per_s / 2);
        ck_assert_double_eq(slower.gpu.clock_hz, system.gpu.clock_hz / 2);
        for (int i = 0; i < NUM_DTYPES; i++)
            ck_assert_double_eq(slower.gpu.peak_flops_per_s[i], system.gpu.peak_flops_per_s[i] / 2);
        for (int i = 0; i < 2; i++) {
            ck_assert_double_eq(slower.profile.curves[0].points[i].time_s,
                                links * curve.points[i].time_s);
            ck_assert_double_eq_tol(slower.profile.curves[0].points[i].log_s,
                                    log(links * curve.points[i].time_s), 1e-12);
            ck_assert_double_eq(slower.profile.curves[0].points[i].bytes, curve.points[i].bytes);
        }
        for (int i = 0; i < system.cluster.num_levels; i++) {
            const struct level *before = &system.cluster.levels[i],
                               *after = &slower.cluster.levels[i];
            ck_assert_double_eq(after->bytes_per_s, before->bytes_per_s / links);
            ck_assert_double_eq(after->channel_bytes_per_s, before->channel_bytes_per_s / links);
            ck_assert_double_eq(after->latency_s, before->latency_s * links);
        }
        ck_assert_double_eq(slower.cluster.host_bytes_per_s,
                            system.cluster.host_bytes_per_s / links);
        ck_assert_double_eq(slower.stack.host.issue_s, system.stack.host.issue_s * links);
        ck_assert_double_eq(point.flops_per_s, 7);
        ck_assert_double_eq(curve.points[0].time_s, 3);
        system_slower_release(&slower);
        system_release(&system);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tcase = tcase_create("slower");
    tcase_add_loop_test(tcase, a_slower_device_takes_proportionally_longer, 0, LENGTH(cases));
    tcase_add_test(tcase, every_rate_and_time_of_the_device_changes);
    Suite *s = suite_create("sim/engine/slower");
    suite_add_tcase(s, tcase);
    return s;
}

TEST_MAIN(suite)
