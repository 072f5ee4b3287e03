#include "sim/engine/simulate.h"

#include "search/orders.h"
#include "sim/plan/ranks.h"
#include "tests/testing.h"

#include <stdio.h>
#include <string.h>

/* A lattice is the set of all plans of one model on one cluster with one stack (training
 * software). */
static const struct lattice {
    const char *model, *cluster, *stack;
    int gpus;
    double batch;
} lattices[] = {
    { "gpt3-1.3b", "dgx-a100-80g", "megatron-2021", 8, 32 },
    { "gpt3-1.3b", "dgx-a100-80g", "megatron-core", 16, 64 },
    { "gpt3-6.7b", "dgx-h100", "megatron-core", 16, 48 },
    { "gpt3-6.7b", "dgx-a100-80g", "megatron-2023", 16, 48 },
    { "llama3-8b", "dgx-h100", "torchtitan", 32, 64 },
    { "gpt2-xl", "dgx2-v100", "megatron-deepspeed", 16, 96 },
    { "tiny", "rtx-2080ti-4", "torch-ddp", 4, 8 },
    { "gpt3-125m", "dgx-h100", "megatron-core", 1, 8 },
    { "gpt3-350m", "dgx-h100", "megatron-2021", 2, 24 },
    { "gpt3-760m", "dgx-b200", "megatron-core", 4, 16 },
    { "gpt3-2.7b", "dgx-h200", "torchtitan", 8, 40 },
    { "gpt3-13b", "gb200-nvl72", "megatron-core", 64, 128 },
    { "llama2-7b", "dgx-a100-80g", "megatron-core", 32, 32 },
    { "llama2-13b", "dgx-a100-80g", "megatron-deepspeed", 64, 64 },
    { "mistral-7b", "dgx-h100", "megatron-core", 8, 8 },
    { "qwen2.5-7b", "dgx-h200", "megatron-core", 16, 32 },
    { "bloom-176b", "dgx-a100-80g", "megatron-deepspeed", 48, 48 },
    { "gpt3-175b", "dgx-h100", "megatron-core", 128, 256 },
    { "opt-175b", "dgx-a100-80g", "megatron-2021", 64, 128 },
    { "llama-65b", "dgx-b200", "torchtitan", 256, 256 },
    { "gpt2", "dgx2-v100", "megatron-2021", 16, 64 },
    { "gpt2-xl", "rtx-2080ti-4", "torch-ddp", 8, 16 },
};
enum { NUM_LATTICES = LENGTH(lattices) };

static const char *const recompute_words[] = { "", " recompute=selective", " recompute=full" };
static const char *const schedule_words[] = { "", " schedule=zb-h1", " schedule=zb-h2",
                                              " schedule=dualpipev", " schedule=dualpipe" };

/* Makes layout number `code` of a lattice; returns whether it is valid. */
static bool next_plan(const struct lattice *l, const struct model *model, int code,
                      struct arena *arena, struct plan *plan)
{
    char text[200];
    int tp = 1 << code % 4, pp = 1 << code / 4 % 4, mb = 1 << code / 16 % 3;
    int vpp = 1 << code / 48 % 3, zero = code / 144 % 4, recompute = code / 576 % 3;
    snprintf(text, sizeof text, "tp%d pp%d mb%d vpp%d zero%d%s%s%s%s", tp, pp, mb, vpp, zero,
             code / 1728 % 2 && tp > 1 ? " sp" : "", recompute_words[recompute],
             schedule_words[code / 3456],
             l->cluster[0] == 'r' || l->cluster[3] == '2' ? " dtype=fp16" : "");
    struct err err = { 0 };
    return plan_parse(text, arena, plan, &err) && plan_derive_data(plan, l->gpus, &err) &&
           !plan_check(plan, model, l->batch, l->gpus, &err);
}
enum { NUM_CODES = 1728 * 2 * LENGTH(schedule_words) };

/* A floor is a lower bound that holds for several plans. Checks that the floors of plans that
 * recompute less are floors of this plan too. */
static void check_floors(struct evaluator *evaluator, struct plan plan, double step_s)
{
    for (int most = plan.recompute; plan.recompute >= RECOMPUTE_NONE; plan.recompute--)
        if (plan.recompute == most || plan.recompute == RECOMPUTE_NONE) {
            double floor_s = evaluate_floor_s(evaluator, &plan);
            ck_assert_double_le(floor_s, step_s * (1 + 1e-12));
            ck_assert_double_le(evaluate_work_floor_s(evaluator, &plan), floor_s);
        }
}

/* Checks that bounds that are computed for all rank orders hold for the order of this plan. */
static void check_unplaced(struct evaluator *evaluator, struct plan plan,
                           const struct rank_orders *orders, int order)
{
    struct rank_orders all = { orders->at, orders->count };
    struct plan less = plan;
    less.recompute = RECOMPUTE_NONE;
    double floor_s = evaluate_unplaced_floor_s(evaluator, &plan, &all);
    double less_s = evaluate_unplaced_floor_s(evaluator, &less, &all);
    double bytes = evaluate_unplaced_bytes(evaluator, &plan);
    memcpy(plan.order, orders->at[order], sizeof plan.order);
    double step_s = evaluate_step_s(evaluator, &plan);
    ck_assert_double_le(floor_s, step_s * (1 + 1e-12));
    ck_assert_double_le(less_s, step_s * (1 + 1e-12));
    ck_assert_double_le(bytes, evaluate_peak_bytes(evaluator, &plan));
    ck_assert_double_gt(floor_s, 0);
}

/* One stage waits for no other stage, so the floor of its passes equals their compute time. The
 * compute includes multi-token-prediction (MTP) modules. */
START_TEST(the_floor_of_one_stage_is_its_compute_time)
{
    struct system system;
    struct model model;
    struct arena arena = { 0 };
    struct plan plan;
    struct err err = { 0 };
    ck_assert(model_load("gpt3-125m", &model, &err));
    ck_assert(system_load("dgx-h100", "megatron-core", 1, &system, &err));
    ck_assert(plan_parse("dp1 mb1", &arena, &plan, &err));
    model.batch = 4;
    model.mtp = _i;
    struct evaluator *evaluator = evaluator_new(&system, &model);
    struct time_parts time = evaluate(evaluator, &plan).time;
    double floor_s = evaluate_work_floor_s(evaluator, &plan);
    ck_assert_double_le(floor_s, time.compute_s + time.other_s);
    ck_assert_double_ge(floor_s, 0.97 * time.compute_s);
    evaluator_free(evaluator);
    arena_release(&arena);
    system_release(&system);
}
END_TEST

START_TEST(the_bound_is_at_most_the_step_time_of_every_plan)
{
    if (is_spared(_i, 3))
        return;
    const struct lattice *l = &lattices[_i];
    struct err err = { 0 };
    struct model model;
    struct system system;
    struct arena arena = { 0 };
    ck_assert_msg(model_load(l->model, &model, &err), "%s: %s", err.where, err.msg);
    ck_assert_msg(system_load(l->cluster, l->stack, l->gpus, &system, &err), "%s: %s", err.where,
                  err.msg);
    model.batch = l->batch;
    struct evaluator *evaluator = evaluator_new(&system, &model);
    struct plan base = plan_default();
    struct rank_orders orders = orders_new(&base, true, &arena);
    int valid = 0;
    double slack = 0;
    for (int code = 0; code < NUM_CODES; code++) {
        struct plan plan;
        if (!next_plan(l, &model, code, &arena, &plan))
            continue;
        double step_s = evaluate_step_s(evaluator, &plan);
        double bound_s = evaluate_bound_s(evaluator, &plan);
        ck_assert_double_le(bound_s, step_s * (1 + 1e-12));
        check_floors(evaluator, plan, step_s);
        if (code % 5 == 0)
            check_unplaced(evaluator, plan, &orders, code / 5 % orders.count);
        slack += step_s / bound_s - 1;
        valid++;
    }
    ck_assert_int_gt(valid, 10);
    ck_assert_double_lt(slack / valid, 0.15); /* checks that the bounds are tight enough */
    evaluator_free(evaluator);
    system_release(&system);
    arena_release(&arena);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("bound");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, the_floor_of_one_stage_is_its_compute_time, 0, 3);
    tcase_add_loop_test(tc, the_bound_is_at_most_the_step_time_of_every_plan, 0, NUM_LATTICES);
    Suite *s = suite_create("sim/engine/bound");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
