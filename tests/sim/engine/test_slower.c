/* A device with 95 % of the speed takes 1 / 0.95 times as long for all its own work. */
#include "sim/engine/simulate.h"
#include "sim/engine/slower.h"
#include "tests/testing.h"

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

/* Adds tables as on a host: measured times of products and norms take precedence over the
 * formulas. */
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
    /* the host of a slower GPU is not slower, so its launches are not compared */
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
    ck_assert_msg(ratio > cases[_i].least && ratio < cases[_i].most, "%s on %s: %.5f times",
                  cases[_i].layout, cases[_i].stack, ratio);
    ck_assert_double_eq(predict(&same, &model, &plan).step_s, before.step_s);
    system_slower_release(&slower);
    system_slower_release(&same);
    system_release(&system);
    arena_release(&arena);
}
END_TEST

static Suite *suite(void)
{
    TCase *tcase = tcase_create("slower");
    tcase_add_loop_test(tcase, a_slower_device_takes_proportionally_longer, 0, LENGTH(cases));
    Suite *s = suite_create("sim/engine/slower");
    suite_add_tcase(s, tcase);
    return s;
}

TEST_MAIN(suite)
