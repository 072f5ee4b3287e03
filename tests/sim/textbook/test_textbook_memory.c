#include "sim/textbook/memory.h"

#include "sim/textbook/pipeline.h"
#include "sim/textbook/work.h"
#include "tests/sim/textbook/textbook_runs.h"
#include "tests/testing.h"

#include <math.h>

static const double gb = 1e9;
static const double gib = 1073741824;

static double row_layer_bytes(const struct textbook_run *row, enum textbook_keep keep)
{
    struct textbook_batch microbatch = { .sequences = row->microbatch, .seq = 2048 };
    return textbook_layer_activation_bytes(&row->model, keep, row->tensor, microbatch, 2);
}

/* In fp32, weights take 175e9 x 4 bytes = 700 GB, gradients as much, and the two moments 1.4 TB. */
START_TEST(gpt3_in_fp32_keeps_700_gb_weights_700_gb_gradients_and_1400_gb_moments)
{
    struct textbook_state state = textbook_state(recipe_named("fp32"), 175e9, 0, 1);
    ck_assert_double_eq(state.weights_bytes, 700 * gb);
    ck_assert_double_eq(state.gradients_bytes, 700 * gb);
    ck_assert_double_eq(state.optimizer_bytes, 1400 * gb);
}
END_TEST

/* 96 x (2 x 2048^2 x 96 + 14 x 2048 x 12288) x 4 bytes are 444.5 GB (414 GiB); the lecture
 * (docs/lecture.md) has 444 GB. That is 63 % of the 700 GB of weights; with a batch of b = 128 it
 * is (444 x 128) / 700 = 81 times the weights. */
START_TEST(gpt3_activations_are_444_gb_or_63_percent_of_the_weights_and_81_times_at_batch_128)
{
    double one_bytes = 4 * textbook_activation_values(&gpt3, (struct textbook_batch){ 1, 2048 });
    double many_bytes = 4 * textbook_activation_values(&gpt3, (struct textbook_batch){ 128, 2048 });
    double weights_bytes = 700 * gb;
    check_within(one_bytes, 444 * gb, 0.01);
    ck_assert_double_eq_tol(one_bytes / weights_bytes, 0.63, 0.01);
    ck_assert_double_eq_tol(many_bytes / weights_bytes, 81, 0.5);
}
END_TEST

/* The state has four fp32 values for each of 12 x 96 x 12288^2 parameters, 2783.1 GB in all;
 * activations add 444.5 GB. */
START_TEST(training_memory_is_four_values_a_parameter_and_the_activations)
{
    double bytes = textbook_training_bytes(&gpt3, (struct textbook_batch){ 1, 2048 });
    check_within(bytes, 2783.14 * gb + 444.53 * gb, 1e-5);
}
END_TEST

/* Weights take 7e9 x 4 bytes = 28 GB. Weights, gradients and two moments together take 4 x 28 = 112
 * GB. */
START_TEST(seven_billion_parameters_in_fp32_take_112_gb)
{
    struct textbook_state state = textbook_state(recipe_named("fp32"), 7e9, 0, 1);
    ck_assert_double_eq(state.weights_bytes, 28 * gb);
    ck_assert_double_eq(textbook_state_bytes(&state), 112 * gb);
}
END_TEST

/* Each parameter takes 2 + 2 + 2 + 2 = 8 bytes (weight, gradient, two moments). */
START_TEST(ten_billion_parameters_in_pure_bf16_take_80_gb)
{
    struct textbook_state state = textbook_state(recipe_named("bf16-pure"), 10e9, 0, 1);
    ck_assert_double_eq(textbook_state_bytes(&state), 80 * gb);
}
END_TEST

/* At 16 bytes per parameter, 32 GB hold 32e9 / 16 = 2.0e9 parameters, and 11 GB hold 0.69e9. */
START_TEST(sixteen_bytes_a_weight_bound_a_v100_to_2_0_and_a_2080_ti_to_0_7_billion)
{
    ck_assert_double_eq(textbook_largest_model(32 * gb, 16), 2.0e9);
    ck_assert_double_eq_tol(textbook_largest_model(11 * gb, 16), 0.7e9, 0.05e9);
}
END_TEST

/* Rajbhandari et al. 2020, figure 1: 7.5e9 parameters take 16, 4 + 12/64, 2 + 14/64 and 16/64 bytes
 * each on 64 ranks, i.e. 120, 31.4, 16.6 and 1.9 GB. A weight, its gradient and its optimizer state
 * take 2 + 2 + 12 bytes. */
START_TEST(zero_takes_7_5_billion_parameters_from_120_to_31_4_to_16_6_to_1_9_gb)
{
    static const double expected_gb[] = { 120, 31.4, 16.6, 1.9 };
    const struct textbook_recipe *recipe = recipe_named("deepspeed");
    for (int zero = 0; zero <= 3; zero++) {
        struct textbook_state state = textbook_state(recipe, 7.5e9, zero, 64);
        ck_assert_double_eq_tol(textbook_state_bytes(&state) / gb, expected_gb[zero], 0.05);
    }
}
END_TEST

/* By Megatron's documentation, a parameter takes 6 + 12/8 = 7.5 bytes with the distributed
 * optimizer over 8 ranks, and 18 bytes without. */
START_TEST(bf16_takes_18_bytes_a_parameter_and_7_5_over_eight_ranks)
{
    const struct textbook_recipe *recipe = recipe_named("bf16");
    struct textbook_state whole = textbook_state(recipe, 1, 0, 8);
    struct textbook_state sharded = textbook_state(recipe, 1, 1, 8);
    ck_assert_double_eq(textbook_state_bytes(&whole), 18);
    ck_assert_double_eq(textbook_state_bytes(&sharded), 7.5);
}
END_TEST

/* The bytes are those of Megatron-LM's dist_optimizer.md. fp8 keeps one byte or two instead of
 * bf16's two, and mxfp8 two copies of 1 + 1/32 bytes. */
START_TEST(recipes_cost_what_their_documentation_says)
{
    static const struct {
        const char *name;
        double replicated, fixed, sharded; /* bytes per parameter; with ZeRO-1 over d ranks they are
                                              fixed + sharded / d */
    } documented[] = {
        { "fp32", 16, 8, 8 },
        { "fp32-momentum", 12, 8, 4 },
        { "fp16", 20, 4, 16 },
        { "bf16", 18, 6, 12 },
        { "deepspeed", 16, 4, 12 },
        { "bf16-pure", 8, 4, 4 },
        { "bf16-pure-momentum", 6, 4, 2 },
        { "fp8", 17, 5, 12 },
        { "fp8-transposed", 18, 6, 12 },
        { "mxfp8", 18.0625, 6.0625, 12 },
        { "precision-aware", 14, 6, 8 },
    };
    ck_assert_int_eq(num_textbook_recipes, LENGTH(documented));
    for (int i = 0; i < num_textbook_recipes; i++) {
        const struct textbook_recipe *recipe = recipe_named(documented[i].name);
        struct textbook_state whole = textbook_state(recipe, 1, 0, 16);
        struct textbook_state sharded = textbook_state(recipe, 1, 1, 16);
        ck_assert_double_eq(textbook_state_bytes(&whole), documented[i].replicated);
        ck_assert_double_eq(textbook_state_bytes(&sharded),
                            documented[i].fixed + documented[i].sharded / 16);
    }
}
END_TEST

START_TEST(zero_over_one_rank_saves_nothing)
{
    const struct textbook_recipe *recipe = &textbook_recipes[_i];
    struct textbook_state whole = textbook_state(recipe, 1e9, 0, 1);
    for (int zero = 1; zero <= 3; zero++) {
        struct textbook_state state = textbook_state(recipe, 1e9, zero, 1);
        ck_assert_double_eq(textbook_state_bytes(&state), textbook_state_bytes(&whole));
    }
}
END_TEST

START_TEST(each_zero_stage_takes_less_than_the_one_before)
{
    const struct textbook_recipe *recipe = &textbook_recipes[_i];
    for (int zero = 1; zero <= 3; zero++) {
        struct textbook_state before = textbook_state(recipe, 1e9, zero - 1, 8);
        struct textbook_state after = textbook_state(recipe, 1e9, zero, 8);
        ck_assert_double_lt(textbook_state_bytes(&after), textbook_state_bytes(&before));
    }
}
END_TEST

/* 100 parameters, 50 activations per sequence, 8 sequences on 4 ranks and 2 bytes per value give 2
 * x (4 x 100 + 8/4 x 50) = 1000 bytes. The 800 bytes of state do not shrink with more ranks.
 * Gradients take 2 x 100 bytes. */
START_TEST(data_parallelism_divides_activations_but_not_state)
{
    ck_assert_double_eq(textbook_data_parallel_bytes(100, 50, 8.0 / 4), 1000);
    ck_assert_double_eq(textbook_data_parallel_bytes(100, 50, 0), 800);
    ck_assert_double_eq(textbook_data_parallel_traffic_bytes(100), 200);
}
END_TEST

/* On one tensor rank a layer keeps s b h (34 + 5 a s / h) bytes. For a s / h = 96 x 2048 / 12288 =
 * 16 and b = 1 that is 114 x 2048 x 12288. */
START_TEST(a_gpt3_layer_keeps_34_plus_80_bytes_a_value)
{
    double bytes = textbook_layer_activation_bytes(&gpt3, TEXTBOOK_KEEP_ALL, 1,
                                                   (struct textbook_batch){ 1, 2048 }, 2);
    ck_assert_double_eq(bytes, 114.0 * 2048 * 12288);
}
END_TEST

/* Korthikanti et al. 2022, figure 1. For the 22B model, 48 layers x 48 MiB (= s b h) x (10 + 24/8 +
 * 5 x 64 x 2048 / (6144 x 8)) = 59.25 GiB, and 48 layers x 48 MiB x 34/8 = 9.5625 GiB. */
START_TEST(activations_of_korthikanti_figure_1_are_reproduced)
{
    const struct textbook_run *row = &textbook_runs[_i];
    double layers = textbook_layers_in_flight(row->pipeline, row->model.layers);
    double all_bytes = layers * row_layer_bytes(row, TEXTBOOK_KEEP_ALL);
    double sharded_bytes = layers * row_layer_bytes(row, TEXTBOOK_KEEP_SEQUENCE_SELECTIVE);
    check_within(all_bytes, row->all_gib * gib, 1e-12);
    check_within(sharded_bytes, row->sharded_gib * gib, 1e-12);
}
END_TEST

/* The other bars of figure 1 are 18 bytes for each of 12 l h^2 / (t p) parameters. For the 22B
 * model, 12 x 48 x 6144^2 / 8 x 18 = 45.5625 GiB. */
START_TEST(weights_and_optimizer_of_korthikanti_figure_1_are_reproduced)
{
    const struct textbook_run *row = &textbook_runs[_i];
    double layer_parameters = textbook_layer_parameters(&row->model) * row->model.layers;
    double shard = layer_parameters / (row->tensor * row->pipeline.stages);
    struct textbook_state state = textbook_state(recipe_named("bf16"), shard, 0, 1);
    check_within(textbook_state_bytes(&state), row->static_gib * gib, 1e-12);
}
END_TEST

/* Korthikanti et al. 2022, figure 7, shows activations in percent of those with tensor parallelism
 * alone. For the 22B model tensor parallelism alone keeps 13 + 13.33 = 26.33 bytes per element of
 * the hidden state; the compared techniques keep 4.25 + 13.33, 13, 4.25 and 2 bytes. */
START_TEST(savings_of_korthikanti_figure_7_are_reproduced)
{
    const struct textbook_run *row = &textbook_runs[_i];
    double whole = row_layer_bytes(row, TEXTBOOK_KEEP_ALL) / 100;
    double sequence = row_layer_bytes(row, TEXTBOOK_KEEP_SEQUENCE) / whole;
    double selective = row_layer_bytes(row, TEXTBOOK_KEEP_SELECTIVE) / whole;
    double both = row_layer_bytes(row, TEXTBOOK_KEEP_SEQUENCE_SELECTIVE) / whole;
    double full = row_layer_bytes(row, TEXTBOOK_KEEP_INPUT) / whole;
    ck_assert_double_eq_tol(sequence, row->sequence, 0.15);
    ck_assert_double_eq_tol(selective, row->selective, 0.15);
    ck_assert_double_eq_tol(both, row->both, 0.15);
    ck_assert_double_eq_tol(full, row->full, 0.15);
}
END_TEST

START_TEST(sharding_over_more_tensor_ranks_never_keeps_more)
{
    enum textbook_keep keep = (enum textbook_keep)_i;
    struct textbook_batch microbatch = { 1, 2048 };
    for (int tensor = 1; tensor < 64; tensor *= 2)
        ck_assert_double_ge(
            textbook_layer_activation_bytes(&gpt3, keep, tensor, microbatch, 2),
            textbook_layer_activation_bytes(&gpt3, keep, 2 * tensor, microbatch, 2));
}
END_TEST

/* With one rank sequence parallelism changes nothing. */
START_TEST(sequence_parallelism_over_one_rank_keeps_the_same)
{
    static const enum textbook_keep pairs[][2] = {
        { TEXTBOOK_KEEP_ALL, TEXTBOOK_KEEP_SEQUENCE },
        { TEXTBOOK_KEEP_SELECTIVE, TEXTBOOK_KEEP_SEQUENCE_SELECTIVE },
        { TEXTBOOK_KEEP_INPUT, TEXTBOOK_KEEP_SEQUENCE_INPUT },
    };
    struct textbook_batch microbatch = { 2, 2048 };
    for (size_t i = 0; i < LENGTH(pairs); i++)
        ck_assert_double_eq(textbook_layer_activation_bytes(&gpt3, pairs[i][0], 1, microbatch, 2),
                            textbook_layer_activation_bytes(&gpt3, pairs[i][1], 1, microbatch, 2));
}
END_TEST

/* Full recompute keeps only a layer's input, which is the minimum. */
START_TEST(an_input_is_the_least_that_a_layer_keeps)
{
    enum textbook_keep keep = (enum textbook_keep)_i;
    struct textbook_batch microbatch = { 1, 2048 };
    enum textbook_keep input = textbook_keep_input(keep);
    ck_assert_double_le(textbook_layer_activation_bytes(&gpt3, input, 8, microbatch, 2),
                        textbook_layer_activation_bytes(&gpt3, keep, 8, microbatch, 2));
    ck_assert_int_eq(textbook_keep_input(input), input);
}
END_TEST

/* For 96 layers a checkpoint for every K = sqrt(96) = 9.80 layers holds 19.6 units; with a
 * checkpoint per layer, or only one, 97 units are held. */
START_TEST(checkpoint_memory_is_least_at_the_root_of_the_layers)
{
    double best = textbook_best_interval(96);
    double least = textbook_checkpointed_layers(96, best);
    check_within(least, 2 * sqrt(96.0), 1e-12);
    for (int interval = 1; interval <= 96; interval++)
        ck_assert_double_ge(textbook_checkpointed_layers(96, interval), least);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("memory");
    tcase_add_test(tc, gpt3_in_fp32_keeps_700_gb_weights_700_gb_gradients_and_1400_gb_moments);
    tcase_add_test(
        tc, gpt3_activations_are_444_gb_or_63_percent_of_the_weights_and_81_times_at_batch_128);
    tcase_add_test(tc, training_memory_is_four_values_a_parameter_and_the_activations);
    tcase_add_test(tc, seven_billion_parameters_in_fp32_take_112_gb);
    tcase_add_test(tc, ten_billion_parameters_in_pure_bf16_take_80_gb);
    tcase_add_test(tc, sixteen_bytes_a_weight_bound_a_v100_to_2_0_and_a_2080_ti_to_0_7_billion);
    tcase_add_test(tc, zero_takes_7_5_billion_parameters_from_120_to_31_4_to_16_6_to_1_9_gb);
    tcase_add_test(tc, bf16_takes_18_bytes_a_parameter_and_7_5_over_eight_ranks);
    tcase_add_test(tc, recipes_cost_what_their_documentation_says);
    tcase_add_loop_test(tc, zero_over_one_rank_saves_nothing, 0, num_textbook_recipes);
    tcase_add_loop_test(tc, each_zero_stage_takes_less_than_the_one_before, 0,
                        num_textbook_recipes);
    tcase_add_test(tc, data_parallelism_divides_activations_but_not_state);
    tcase_add_test(tc, a_gpt3_layer_keeps_34_plus_80_bytes_a_value);
    tcase_add_loop_test(tc, activations_of_korthikanti_figure_1_are_reproduced, 0,
                        NUM_TEXTBOOK_RUNS);
    tcase_add_loop_test(tc, weights_and_optimizer_of_korthikanti_figure_1_are_reproduced, 0,
                        NUM_TEXTBOOK_RUNS);
    tcase_add_loop_test(tc, savings_of_korthikanti_figure_7_are_reproduced, 0, NUM_TEXTBOOK_RUNS);
    tcase_add_loop_test(tc, sharding_over_more_tensor_ranks_never_keeps_more, 0,
                        NUM_TEXTBOOK_KEEPS);
    tcase_add_test(tc, sequence_parallelism_over_one_rank_keeps_the_same);
    tcase_add_loop_test(tc, an_input_is_the_least_that_a_layer_keeps, 0, NUM_TEXTBOOK_KEEPS);
    tcase_add_test(tc, checkpoint_memory_is_least_at_the_root_of_the_layers);
    Suite *s = suite_create("sim/textbook/memory");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
