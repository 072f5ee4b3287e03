/* The plan with which DeepSeek-V3 was trained (arXiv 2412.19437, sections 3.1 to 3.3): 2,048 H800,
 * 16 pipeline stages with DualPipe, 64 ranks of experts on 8 nodes, ZeRO-1, no tensor parallelism,
 * norms and up-projections recomputed, 16-bit moments. */
#include "sim/engine/simulate.h"
#include "tests/sim/machine.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

static struct arena arena;

static const char layout[] =
    "pp16 ep64 mb1 schedule=dualpipe zero1 dtype=fp8-block optimizer=adam-bf16 overlap=ep "
    "recompute=selective:mla_up_proj+layernorm stages=Et*3|(t*4|)*14ttmL";

static void release(void)
{
    machine_release();
    arena_release(&arena);
}

/* Computes the memory of a stage of the plan on a stack (training software). */
static struct stage_memory memory_on(const char *stack, int stage)
{
    struct err err = { 0 };
    struct model model = model_of("deepseek-v3");
    ck_assert_msg(system_load("h800-8", stack, 2048, &machine, &err), "%s", err.msg);
    struct evaluator *evaluator = evaluator_new(&machine, &model);
    struct plan plan = plan_on(&machine, &model, layout, &arena);
    struct stage_memory memory = evaluate(evaluator, &plan).stages[stage];
    evaluator_free(evaluator);
    return memory;
}

/* The parameters of a block's experts on a rank, and of its other weights. The router's bias is
 * left out, because it has no gradient. */
static const double of_experts = 4 * 3 * 7168.0 * 2048;
static const double of_others = 187107328 + 2 * 7168 + 7168.0 * 256 + 3 * 7168.0 * 2048;

/* With DualPipe a rank, except the first and the last, holds two copies of four blocks. Weights
 * have 2 bytes and two fp8 copies of 1 + 4/128 bytes each, gradients 4 bytes, and optimizer state 8
 * bytes. The state of experts is sharded over 4 ranks. That of other weights is sharded over 256,
 * because both copies of the model on 128 data ranks hold them. */
START_TEST(each_rank_has_the_state_of_two_copies)
{
    struct stage_memory memory = memory_on("hai-llm", 1);
    double blocks = 8, fp8 = 1 + 4.0 / 128;
    double weights = blocks * (of_experts + of_others + 256);
    ck_assert_double_eq_tol(memory.weights_bytes, (2 + 2 * fp8) * weights, 1);
    ck_assert_double_eq_tol(memory.gradients_bytes, 4 * blocks * (of_experts + of_others), 1);
    ck_assert_double_eq_tol(memory.optimizer_bytes, 8 * blocks * (of_experts / 4 + of_others / 256),
                            1);
}
END_TEST

/* 17 microbatches of 4,096 tokens are in flight in 4 blocks. test_storage.c derives the bytes per
 * token. A microbatch between its input gradients and its weight gradients adds 0.1 %. */
START_TEST(activations_are_those_of_pp_plus_one_microbatches)
{
    double h = 7168, k = 8, f = 2048, fp8 = 1 + 4.0 / 128;
    double token = 4 * h + 2 * 1536 + 4 + 2 * 576 + 4 + (1.5 + 4.0 / 128) * 128 * 128 + 4 * 128 +
                   9 * 256 + 4 * k + fp8 * k * h + fp8 * 2 * f * (k + 1) + 12 * k;
    struct stage_memory memory = memory_on("hai-llm", 1);
    double kept_bytes = 17 * 4 * 4096 * token;
    ck_assert_double_ge(memory.activations_bytes, kept_bytes);
    ck_assert_double_le(memory.activations_bytes, 1.002 * kept_bytes);
}
END_TEST

/* The plan fits with the software that ran it. Megatron Core keeps the inputs of SwiGLU and
 * attention's output in 16 bits, so with it the plan does not fit. */
START_TEST(the_plan_fits_80_gb_with_the_software_that_ran_it)
{
    /* the first rank, and one between the first and the last */
    for (int stage = 0; stage < 2; stage++) {
        ck_assert_double_le(memory_on("hai-llm", stage).total_bytes, machine.gpu.usable_bytes);
        machine_release();
    }
    ck_assert_double_gt(memory_on("megatron-core", 1).total_bytes, machine.gpu.usable_bytes);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("published");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, each_rank_has_the_state_of_two_copies);
    tcase_add_test(tc, activations_are_those_of_pp_plus_one_microbatches);
    tcase_add_test(tc, the_plan_fits_80_gb_with_the_software_that_ran_it);
    Suite *s = suite_create("published plan");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
