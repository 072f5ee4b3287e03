#include "sim/plan/plan.h"

#include "sim/plan/ranks.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <limits.h>
#include <string.h>

static struct arena arena;
static struct text text;
static struct err err;

static void release(void)
{
    arena_release(&arena);
    text_release(&text);
}

/* --- degrees ---------------------------------------------------------------------------------- */

START_TEST(data_ranks_are_gpus_divided_by_the_other_degrees)
{
    struct plan plan = plan_of("tp8 pp8 mb1", &arena);
    ck_assert(plan_derive_data(&plan, 1024, &err));
    ck_assert_int_eq(plan.dp, 16);
    ck_assert_int_eq(plan_ranks(&plan), 1024);
}
END_TEST

START_TEST(gpus_not_divisible_by_the_degrees_are_an_error_with_both_numbers)
{
    struct plan plan = plan_of("tp8 pp3 mb1", &arena);
    ck_assert(!plan_derive_data(&plan, 1024, &err));
    ck_assert_int_eq(err.code, ERR_INFEASIBLE);
    ck_assert_str_eq(
        err.msg,
        "the number of GPUs, 1024, is not a multiple of the 24 ranks of tp 8 x cp 1 x pp 3");
}
END_TEST

START_TEST(given_data_ranks_must_use_all_gpus)
{
    struct plan plan = plan_of("tp8 pp8 dp15 mb1", &arena);
    ck_assert(!plan_derive_data(&plan, 1024, &err));
    ck_assert_str_eq(err.msg, "tp 8 x cp 1 x pp 8 x dp 15 is 960 GPUs, not 1024");
    ck_assert_int_eq(plan.dp, 15);
}
END_TEST

START_TEST(state_is_sharded_over_all_replicas_unless_fewer_are_requested)
{
    struct plan plan = plan_of("tp2 cp2 dp8 zero3", &arena);
    ck_assert_int_eq(plan_replicas(&plan), 16);
    ck_assert_int_eq(plan_shards(&plan), 16);
    plan.shard = 4;
    ck_assert_int_eq(plan_shards(&plan), 4);
}
END_TEST

START_TEST(no_product_of_degrees_overflows)
{
    struct plan plan =
        plan_of("tp16777216 cp16777216 pp16777216 dp16777216 mb16777216 vpp16777216", &arena);
    ck_assert_int_eq(plan_ranks(&plan), INT_MAX);
    ck_assert_int_eq(plan_chunks(&plan), INT_MAX);
    ck_assert(!plan_derive_data(&plan, 8, &err));
    ck_assert_int_eq(plan_microbatches(&plan, 1e9), 0);
    plan.dp = plan.microbatch = 1;
    ck_assert_int_eq(plan_microbatches(&plan, 1e18), INT_MAX);
}
END_TEST

START_TEST(microbatches_are_counted_per_replica)
{
    struct plan plan = plan_of("tp8 pp8 dp16 mb2", &arena);
    ck_assert_int_eq(plan_microbatches(&plan, 1536), 48);
}
END_TEST

START_TEST(the_layers_of_all_chunks_sum_to_the_models)
{
    struct model model = { .layers = 96 };
    struct plan even = plan_of("pp8 vpp3", &arena);
    struct plan uneven = plan_of("pp4 stages=23,25,25,23", &arena);
    int sum = 0;
    for (int chunk = 0; chunk < plan_chunks(&even); chunk++)
        sum += plan_chunk_layers(&even, &model, chunk);
    ck_assert_int_eq(sum, 96);
    for (int chunk = 0; chunk < plan_chunks(&uneven); chunk++)
        sum -= plan_chunk_layers(&uneven, &model, chunk);
    ck_assert_int_eq(sum, 0);
}
END_TEST

static const struct {
    const char *layout;
    int layers[2]; /* number of recomputed layers in chunks of 10 and of 3 layers */
} recomputes[] = {
    { "pp2", { 0, 0 } },
    { "pp2 recompute=selective", { 0, 0 } },
    { "pp2 recompute=full", { 10, 3 } },
    { "pp2 recompute=full:4", { 10, 3 } },
    { "pp2 recompute=block:5", { 5, 3 } },
    { "pp2 recompute=block:7,1", { 7, 1 } },
};
enum { NUM_RECOMPUTES = LENGTH(recomputes) };

START_TEST(the_number_of_recomputed_layers_follows_from_the_layout)
{
    struct plan plan = plan_of(recomputes[_i].layout, &arena);
    ck_assert_int_eq(plan_recomputed_layers(&plan, 0, 10), recomputes[_i].layers[0]);
    ck_assert_int_eq(plan_recomputed_layers(&plan, 1, 3), recomputes[_i].layers[1]);
}
END_TEST

/* --- bytes ------------------------------------------------------------------------------------ */

/* The bytes per parameter are those of Megatron-LM's dist_optimizer.md, of DeepSpeed's
 * documentation, and of each optimizer's paper.
 */
static const struct {
    const char *layout;
    double weights, gradients, optimizer;
} recipes[] = {
    /* the weight is its own master, so there are only two moments */
    { "dtype=fp32", 4, 4, 8 },
    /* 20 bytes: the master weight, its gradient and two moments in fp32, and weight and gradient in
     * fp16 */
    { "dtype=fp16 grad=fp16", 2, 2, 16 },
    { "dtype=fp16", 2, 4, 12 },
    { "dtype=bf16", 2, 4, 12 },
    { "dtype=bf16 grad=bf16", 2, 2, 12 }, /* ZeRO's paper counts these 16 bytes */
    { "dtype=bf16-pure", 2, 2, 4 },
    /* with a precision-aware optimizer a parameter takes 14 bytes in all */
    { "dtype=bf16 optimizer=adam-bf16", 2, 4, 8 },
    { "dtype=bf16 optimizer=adam-8bit", 2, 4, 6 + 8.0 / 2048 },
    { "dtype=bf16 optimizer=momentum", 2, 4, 8 },
    { "dtype=bf16 optimizer=sgd", 2, 4, 4 },
    { "dtype=fp32 optimizer=sgd", 4, 4, 0 },
    { "dtype=bf16 optimizer=adafactor", 2, 4, 4 + 8.0 / 4096 },
    /* Muon keeps as much as Adam for the parameters that are not matrices of blocks */
    { "dtype=bf16 optimizer=muon", 2, 4, 12 },
};
enum { NUM_RECIPES = LENGTH(recipes) };

START_TEST(an_optimizers_bytes_per_parameter_equal_its_source)
{
    struct model model = { .hidden = 4096 };
    struct plan plan = plan_of(recipes[_i].layout, &arena);
    struct state_bytes bytes = plan_state_bytes(&plan, &model);
    ck_assert_double_eq(bytes.weights, recipes[_i].weights);
    ck_assert_double_eq(bytes.gradients, recipes[_i].gradients);
    ck_assert_double_eq(bytes.optimizer, recipes[_i].optimizer);
}
END_TEST

/* Megatron-LM's table of bytes per parameter: bf16 weights and fp32 gradients take 6 bytes, and
 * optimizer state takes 12 bytes over 8 ranks. */
START_TEST(a_distributed_optimizer_over_eight_ranks_needs_7_5_bytes_per_parameter)
{
    struct model model = { .hidden = 4096 };
    struct plan plan = plan_of("dp8 zero1", &arena);
    struct state_bytes bytes = plan_state_bytes(&plan, &model);
    ck_assert_double_eq(bytes.weights + bytes.gradients + bytes.optimizer / plan.dp, 7.5);
}
END_TEST

START_TEST(every_product_type_has_a_name_dtype_and_size)
{
    for (int i = 0; i < NUM_PRECISIONS; i++) {
        ck_assert_ptr_nonnull(precision_names[i]);
        ck_assert_double_eq(precision_bytes(i), dtype_bytes(precision_value_dtype(i)));
        bool is_fp8 = strncmp(precision_names[i], "fp8", 3) == 0;
        ck_assert_int_eq(is_fp8, precision_dtype(i) == DTYPE_FP8);
    }
    ck_assert_ptr_null(precision_names[NUM_PRECISIONS]);
    ck_assert_ptr_null(optimizer_names[NUM_OPTIMIZERS]);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("degrees and bytes");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, data_ranks_are_gpus_divided_by_the_other_degrees);
    tcase_add_test(tc, gpus_not_divisible_by_the_degrees_are_an_error_with_both_numbers);
    tcase_add_test(tc, given_data_ranks_must_use_all_gpus);
    tcase_add_test(tc, state_is_sharded_over_all_replicas_unless_fewer_are_requested);
    tcase_add_test(tc, no_product_of_degrees_overflows);
    tcase_add_test(tc, microbatches_are_counted_per_replica);
    tcase_add_test(tc, the_layers_of_all_chunks_sum_to_the_models);
    tcase_add_loop_test(tc, the_number_of_recomputed_layers_follows_from_the_layout, 0,
                        NUM_RECOMPUTES);
    tcase_add_loop_test(tc, an_optimizers_bytes_per_parameter_equal_its_source, 0, NUM_RECIPES);
    tcase_add_test(tc, a_distributed_optimizer_over_eight_ranks_needs_7_5_bytes_per_parameter);
    tcase_add_test(tc, every_product_type_has_a_name_dtype_and_size);
    Suite *s = suite_create("sim/plan: degrees and bytes");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
