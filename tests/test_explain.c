/* What `explain` and `search` tell of two plans: terms that add up to the difference of the steps.
 */
#include "tests/testing.h"

#include "sim/engine/simulate.h"
#include "tests/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Layers over the stages, at random; at least one each. */
static void divide_layers(struct random *rng, const struct model *model, int *layers,
                          int num_stages)
{
    for (int i = 0; i < num_stages; i++)
        layers[i] = 1;
    for (int left = model->layers - num_stages; left > 0; left--)
        layers[random_below(rng, num_stages)]++;
}

/* Not always one that keeps the rules. */
static struct plan random_plan(struct random *rng, const struct model *model, int *layers)
{
    static const char *const schedules[] = { "", "", "gpipe", "naive", "zb-h1" };
    struct plan plan = plan_default();
    plan.tp = PICK(rng, 1, 2, 4, 8);
    plan.cp = PICK(rng, 1, 1, 2);
    plan.sp = plan.tp > 1 && random_below(rng, 2);
    plan.pp = PICK(rng, 1, 2, 4, 8);
    plan.microbatch = PICK(rng, 1, 2, 4);
    plan.vpp = PICK(rng, 1, 1, 2, 3);
    plan.zero = random_below(rng, 4);
    plan.recompute = PICK(rng, RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL);
    strcpy(plan.schedule, schedules[random_below(rng, COUNT(schedules))]);
    if (plan.vpp == 1 && plan.pp > 1 && random_below(rng, 3) == 0) {
        divide_layers(rng, model, layers, plan.pp);
        plan.chunk_layers = layers;
        plan.num_chunk_layers = plan.pp;
    }
    return plan;
}

static struct plan valid_plan(struct random *rng, const struct model *model,
                              const struct system *system, int *layers)
{
    for (;;) {
        struct plan plan = random_plan(rng, model, layers);
        struct err err = { 0 };
        if (plan_derive_data(&plan, system->num_gpus, &err) &&
            !plan_check(&plan, model, model->batch, system->num_gpus, &err) &&
            system_check(system, &plan, &err))
            return plan;
    }
}

static const struct {
    const char *cluster, *stack, *model;
    int num_gpus;
} cases[] = {
    { "dgx-h100", "megatron-core", "gpt3-13b", 64 },
    { "dgx-a100-80g", "megatron-core", "llama2-70b", 32 },
    { "gb200-nvl72", "megatron-core", "llama3-8b", 64 },
    { "dgx-a100-40g", "megatron-2021", "megatron-18b", 16 },
    { "dgx-h100", "torchtitan", "qwen2.5-7b", 16 },
};

/* To 1e-12 of the longer step: what rounding leaves of sums of some hundred terms. */
START_TEST(terms_of_two_plans_add_up_to_the_difference_of_their_steps)
{
    struct system system;
    struct model model;
    struct err err = { 0 };
    bool ok = system_load(cases[_i].cluster, cases[_i].stack, cases[_i].num_gpus, &system, &err) &&
              model_load(cases[_i].model, &model, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    model.batch = 192;
    struct random rng = random_new(11, (uint64_t)_i);
    struct evaluator *evaluator = evaluator_new(&system, &model);
    for (int turn = 0; turn < TURNS(64); turn++) {
        int layers[2][8];
        struct plan first = valid_plan(&rng, &model, &system, layers[0]);
        struct plan second = valid_plan(&rng, &model, &system, layers[1]);
        struct prediction a = evaluate(evaluator, &first);
        struct prediction b = evaluate(evaluator, &second);
        double sum_s = 0;
        for (int i = 0; i < num_time_parts; i++)
            sum_s += time_part_s(&b.time, i) - time_part_s(&a.time, i);
        ck_assert_double_eq_tol(sum_s, b.step_s - a.step_s, 1e-12 * fmax(a.step_s, b.step_s));
    }
    evaluator_free(evaluator);
    system_release(&system);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("explain");
    TCase *terms = tcase_create("terms");
    tcase_set_timeout(terms, 60);
    tcase_add_loop_test(terms, terms_of_two_plans_add_up_to_the_difference_of_their_steps, 0,
                        COUNT(cases));
    suite_add_tcase(s, terms);
    return s;
}

TEST_MAIN(suite)
