/* Tests the optimizer Muon: which matrices it updates, its state, and its time. */
#include "sim/cost/muon.h"

#include "sim/engine/simulate.h"
#include "tests/check_ok.h"
#include "tests/sim/planned.h"
#include "tests/testing.h"

static void release(void)
{
    planned_release();
}

/* --- work ------------------------------------------------------------------------------------- */

/* A Newton-Schulz step on a matrix of a x b costs 4 a^2 b + 2 a^3 FLOPs. An expert of DeepSeek-V3
 * has three matrices of 2048 x 7168, which cost 2.06 TFLOP. Megatron Core stores them as 4096 x
 * 7168 and 2048 x 7168, which cost 3.78 TFLOP, or 56.1 PFLOP for the 256 experts of 58 layers. */
START_TEST(newton_schulz_takes_five_steps_of_three_products)
{
    ck_assert_double_eq(newton_schulz_flops(2, 3), 5 * (4 * 4 * 3 + 2 * 8));
    ck_assert_double_eq(newton_schulz_flops(7168, 2048), newton_schulz_flops(2048, 7168));
    double expert = newton_schulz_flops(4096, 7168) + newton_schulz_flops(2048, 7168);
    ck_assert_double_eq_tol(expert, 3.78e12, 0.005e12);
    ck_assert_double_eq_tol(58 * 256 * expert, 56.1e15, 0.05e15);
}
END_TEST

/* On a GPU with slow memory, memory traffic determines the time. For a matrix of a x b, the three
 * products of a Newton-Schulz step move 2 a b + a^2, 4 a^2, and a^2 + 3 a b values. */
START_TEST(newton_schulz_products_read_and_write_each_operand_once)
{
    struct system system;
    struct err err = { 0 };
    check_ok(system_load("dgx-h100", "megatron-core", 8, &system, &err), &err);
    system.gpu.memory_bytes_per_s /= 1e6;
    double square_s = newton_schulz_s(&system, DTYPE_BF16, 4096, 4096);
    for (int times = 2; times <= 8; times *= 2) {
        double wide_s = newton_schulz_s(&system, DTYPE_BF16, 4096, times * 4096);
        ck_assert_double_eq_tol(wide_s / square_s, (6 + 5 * times) / 11.0, 1e-4);
    }
    system_release(&system);
}
END_TEST

/* Matrices are assigned to ranks, the largest first, each to the rank with the least work. Matrices
 * with work 7, 5, 4, 3 and 1 on two ranks give each rank the work 10. The bound is the largest
 * matrix plus half of the others, 7 + 13 / 2. */
START_TEST(a_ranks_work_is_at_most_the_largest_matrix_plus_its_share_of_the_rest)
{
    struct dealt dealt = { 20, 7 };
    ck_assert_double_eq(dealt_most(dealt, 5, 1), 20);
    ck_assert_double_eq(dealt_most(dealt, 5, 2), 13.5);
    ck_assert_double_eq(dealt_most(dealt, 5, 4), 7 + 13.0 / 4);
    ck_assert_double_eq(dealt_most(dealt, 5, 5), 7);
    ck_assert_double_eq(dealt_most(dealt, 5, 64), 7);
    ck_assert_double_eq(dealt_most((struct dealt){ 0 }, 0, 8), 0);
}
END_TEST

/* --- state ------------------------------------------------------------------------------------ */

/* The model is that of Megatron-LM's tests/functional_tests/test_cases/moe with EP 8 on 8 ranks,
 * with and without Muon. It has 12 layers of width 512 and 8 experts, each of two products of width
 * 1024. */
static void load_golden(const char *layout)
{
    struct err err = { 0 };
    check_ok(system_load("dgx-h100", "megatron-core", 8, &planned.system, &err), &err);
    json_t *object =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:i, s:i, s:i}", "name", "golden",
                  "layers", 12, "hidden", 512, "heads", 8, "vocab", 50304, "seq", 1024, "batch", 32,
                  "linear_bias", false, "experts", 8, "topk", 2, "expert_ffn", 1024);
    check_ok(model_read(object, &planned.model, &err), &err);
    json_decref(object);
    planned_layout(layout);
}

static double state_bytes(void)
{
    struct stage_memory memory = planned_memory(0);
    return memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes;
}

/* By hand: per rank the matrices of one expert per layer have E = 12 x 2 x 512 x 1024 = 12,582,912
 * parameters; the other matrices M = 12 x (4 x 512^2 + 8 x 512) = 12,632,064; embedding, positions
 * and norms R = 50304 x 512 + 1024 x 512 + 25 x 1024 = 26,305,536. Muon keeps 14 bytes per
 * parameter of each matrix and 18 of the rest. Adam over 8 ranks keeps 18 bytes per parameter of
 * experts, whose data group has one rank, and 7.5 of all others. So the states differ by
 * 307,984,896 bytes; Megatron's golden values differ by 308,199,936. */
START_TEST(the_state_difference_of_muon_and_adam_equals_megatrons_measurement)
{
    load_golden("dp8 ep8 mb1 optimizer=muon");
    double with_muon = state_bytes();
    release();
    load_golden("dp8 ep8 mb1 zero1");
    double with_adam = state_bytes();
    double experts = 12582912, matrices = 12632064, rest = 26305536;
    ck_assert_double_eq(planned_parameters(0), experts + matrices + rest);
    ck_assert_double_eq(with_muon, 14 * (experts + matrices) + 18 * rest);
    ck_assert_double_eq(with_adam, 18 * experts + 7.5 * (matrices + rest));
    ck_assert_double_eq(with_muon - with_adam, 307984896);
    ck_assert_double_eq_tol(with_muon - with_adam, 308199936, 0.001 * 308199936);
}
END_TEST

/* Whole matrices are assigned to 8 ranks: in each of 12 layers q, k, v and the projection (512 x
 * 512 each) and a router of 8 x 512. The matrices of experts are not assigned: each rank updates
 * those of its own experts. */
START_TEST(muons_sharded_matrices_are_assigned_whole)
{
    load_golden("dp8 ep8 mb1 optimizer=muon zero1");
    double experts = 12582912, matrices = 12632064, rest = 26305536, largest = 512 * 512;
    double dealt = largest + (matrices - largest) / 8;
    ck_assert_double_eq(planned_memory(0).optimizer_bytes, 8 * (dealt + experts) + 12 * rest / 8);
}
END_TEST

START_TEST(muon_refuses_parts_of_matrices)
{
    static const char *const layouts[] = { "dp8 mb1 optimizer=muon zero2",
                                           "dp8 mb1 optimizer=muon zero3",
                                           "dp8 mb1 optimizer=muon zero1 offload=optimizer" };
    load_golden("dp8 mb1");
    for (int i = 0; i < LENGTH(layouts); i++) {
        struct err err = { 0 };
        struct plan plan;
        check_ok(plan_parse(layouts[i], &planned.arena, &plan, &err), &err);
        ck_assert_str_eq(plan_check(&plan, &planned.model, 32, 8, &err)->name, "optimizer");
    }
}
END_TEST

/* --- time ------------------------------------------------------------------------------------- */

static double optimizer_of(const char *layout)
{
    planned_load("dgx-h100", "megatron-core", "llama3-8b", 8);
    planned.model.batch = 64;
    planned_layout(layout);
    struct evaluator *evaluator = evaluator_new(&planned.system, &planned.model);
    double seconds = evaluate(evaluator, &planned.plan).time.optimizer_s;
    evaluator_free(evaluator);
    release();
    return seconds;
}

/* The model has 32 layers, with q of 4096^2, k and v of 1024 x 4096, the projection of 4096^2, gate
 * and up together of 28672 x 4096, and down of 14336 x 4096. A matrix of a x b takes 5 (4 a^2 b + 2
 * a^3) FLOPs. On 8 ranks, a rank has at most the largest matrix and an eighth of the others. No
 * product is faster than the peak. */
START_TEST(muons_update_takes_the_time_of_a_ranks_matrices)
{
    double square = newton_schulz_flops(4096, 4096), narrow = newton_schulz_flops(1024, 4096);
    double largest = newton_schulz_flops(28672, 4096);
    double all = 32 * (2 * square + 2 * narrow + largest + newton_schulz_flops(14336, 4096));
    double peak = 989.4e12;
    double alone_s =
        optimizer_of("dp8 mb1 optimizer=muon") - optimizer_of("dp8 mb1 optimizer=momentum");
    ck_assert_double_gt(alone_s, all / peak);
    ck_assert_double_lt(alone_s, 2 * all / peak);
    double of_rank = largest + (all - largest) / 8;
    double dealt_s = optimizer_of("dp8 mb1 optimizer=muon zero1") -
                     optimizer_of("dp8 mb1 optimizer=momentum zero1");
    ck_assert_double_gt(dealt_s, of_rank / peak);
    ck_assert_double_lt(dealt_s, 2 * of_rank / peak);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("muon");
    TCase *tc = tcase_create("muon");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, newton_schulz_takes_five_steps_of_three_products);
    tcase_add_test(tc, newton_schulz_products_read_and_write_each_operand_once);
    tcase_add_test(tc, a_ranks_work_is_at_most_the_largest_matrix_plus_its_share_of_the_rest);
    tcase_add_test(tc, the_state_difference_of_muon_and_adam_equals_megatrons_measurement);
    tcase_add_test(tc, muons_sharded_matrices_are_assigned_whole);
    tcase_add_test(tc, muon_refuses_parts_of_matrices);
    tcase_add_test(tc, muons_update_takes_the_time_of_a_ranks_matrices);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
