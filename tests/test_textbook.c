#include "sim/textbook/communication.h"
#include "sim/textbook/energy.h"
#include "sim/textbook/estimate.h"
#include "sim/textbook/failure.h"
#include "sim/textbook/memory.h"
#include "sim/textbook/pipeline.h"
#include "sim/textbook/work.h"
#include "tests/testing.h"

#include <math.h>

static const double gb = 1e9;
static const double gib = 1073741824;
static const double day_s = 86400;
static const double a100_flops_per_s = 312e12; /* dense bf16; 624e12 is its 2:4 sparse figure */
static const double v100_flops_per_s = 125e12;

static const struct model gpt3 = {
    .layers = 96, .hidden = 12288, .heads = 96, .vocab = 50257, .seq = 2048
};

static void check_within(double got, double want, double share)
{
    ck_assert_double_eq_tol(got, want, share * fabs(want));
}

/* Published runs that the papers describe by their dimensions. Korthikanti et al. 2022, table 3:
 * s = 2048, V = 51200, one replica. */
struct row {
    struct model model;
    int tensor, microbatch;
    struct textbook_pipeline pipeline;
    int batch, gpus;
    double step_s;                          /* with selective recompute and sequence parallelism */
    double model_percent, hardware_percent; /* of 312 TFLOP/s, from the formulas */
    double all_gib, sharded_gib;            /* activations: tensor parallel; both savings */
    double static_gib;                      /* weights, gradients and optimizer */
    double sequence, selective, both, full; /* percent of all_gib, figure 7 */
};
// clang-format off
static const struct row rows[] = {
    { { .name = "22B", .layers = 48, .hidden = 6144, .heads = 64, .vocab = 51200 },
      8, 4, { 1, 1, 1 }, 4, 8, 1.10, 41.65, 43.81,
      59.25, 9.5625, 45.5625, 66.8, 49.4, 16.1, 7.6 },
    { { .name = "175B", .layers = 96, .hidden = 12288, .heads = 96, .vocab = 51200 },
      8, 1, { 8, 3, 64 }, 64, 64, 13.75, 51.39, 52.77,
      66.84375, 12.3515625, 45.5625, 62.0, 56.5, 18.5, 8.7 },
    { { .name = "530B", .layers = 105, .hidden = 20480, .heads = 128, .vocab = 51200 },
      8, 1, { 35, 3, 280 }, 280, 280, 37.83, 56.05, 56.96,
      114.0234375, 23.076171875, 31.640625, 58.3, 61.9, 20.2, 9.5 },
    { { .name = "1T", .layers = 128, .hidden = 25600, .heads = 160, .vocab = 51200 },
      8, 1, { 64, 1, 512 }, 512, 512, 71.49, 56.27, 57.01,
      131.25, 26.5625, 32.958984375, 58.3, 61.9, 20.2, 9.5 },
};
// clang-format on
enum { NUM_ROWS = sizeof rows / sizeof *rows };

static struct textbook_batch row_batch(const struct row *row)
{
    return (struct textbook_batch){ .sequences = row->batch, .seq = 2048 };
}

static double row_layer_bytes(const struct row *row, enum textbook_keep keep)
{
    struct textbook_batch microbatch = { .sequences = row->microbatch, .seq = 2048 };
    return textbook_layer_activation_bytes(&row->model, keep, row->tensor, microbatch);
}

/* 12 x 96 x 12288^2 + 2 x 50257 x 12288 = 173.946e9 + 1.235e9. */
START_TEST(gpt3_has_175_billion_parameters_by_the_textbook)
{
    ck_assert_double_eq(textbook_parameters(&gpt3), 175181291520.0);
}
END_TEST

/* Narayanan et al. 2021, section 5.1: 8 x 300e9 x 175e9 / (1024 x 140e12) s = 33.91 days,
 * published as 34. */
START_TEST(gpt3_takes_34_days_on_1024_a100_at_140_tflops)
{
    struct textbook_gpus gpus = { 1024, a100_flops_per_s };
    double flops = textbook_flops(175e9, 300e9, true);
    double days = textbook_compute_s(gpus, flops, 140e12 / a100_flops_per_s) / day_s;
    ck_assert_double_eq_tol(days, 33.91, 0.005);
}
END_TEST

/* 8TP / (N F t) = 4.2e23 / (1024 x 312e12 x 35 x 86400) = 0.4347; the lecture prints 0.44.
 * In 34 days it would be 0.4475. */
START_TEST(gpt3_in_35_days_on_1024_a100_uses_0_435_of_the_peak)
{
    struct textbook_gpus gpus = { 1024, a100_flops_per_s };
    double flops = textbook_flops(175e9, 300e9, true);
    ck_assert_double_eq_tol(textbook_utilization(gpus, flops, 35 * day_s), 0.4347, 0.00005);
    ck_assert_double_eq_tol(textbook_utilization(gpus, flops, 34 * day_s), 0.4475, 0.00005);
}
END_TEST

/* Narayanan et al. 2021, section 5.1: 8 x 450e9 x 1.008e12 / (3072 x 163e12) s = 83.9 days,
 * published as 84. */
START_TEST(a_trillion_parameters_take_84_days_on_3072_a100)
{
    struct textbook_gpus gpus = { 3072, a100_flops_per_s };
    double flops = textbook_flops(1.008e12, 450e9, true);
    double days = textbook_compute_s(gpus, flops, 163e12 / a100_flops_per_s) / day_s;
    ck_assert_double_eq_tol(days, 83.9, 0.05);
}
END_TEST

/* 4.3e23 FLOPs / (1024 x 312e12 x 33 x 86400) = 0.472 by the lecture's figures; Zhang et al. 2022
 * say 992 GPUs, which gives 0.487. */
START_TEST(opt_175b_in_33_days_on_1024_a100_uses_0_47_of_the_peak)
{
    struct textbook_gpus gpus = { 1024, a100_flops_per_s };
    ck_assert_double_eq_tol(textbook_utilization(gpus, 4.3e23, 33 * day_s), 0.47, 0.005);
}
END_TEST

/* 3.14e23 FLOPs / (10000 x 125e12 x 14.8 x 86400) = 0.196. */
START_TEST(gpt3_in_14_8_days_on_10000_v100_uses_0_20_of_the_peak)
{
    struct textbook_gpus gpus = { 10000, v100_flops_per_s };
    ck_assert_double_eq_tol(textbook_utilization(gpus, 3.14e23, 14.8 * day_s), 0.20, 0.005);
}
END_TEST

/* 2048 A100, 1.4e12 tokens, 21 days (Touvron et al. 2023). 8TP = 7.28e23 FLOPs give 0.628 of the
 * dense 312 TFLOP/s, 6TP 0.471. The lecture's 0.3 follows only from 8TP over the sparse peak, 624
 * TFLOP/s: 0.314. */
START_TEST(llama_65b_uses_0_63_of_the_peak_with_recompute_and_0_47_without)
{
    struct textbook_gpus gpus = { 2048, a100_flops_per_s };
    struct textbook_gpus sparse = { 2048, 2 * a100_flops_per_s };
    double with = textbook_flops(65e9, 1.4e12, true);
    double without = textbook_flops(65e9, 1.4e12, false);
    ck_assert_double_eq_tol(textbook_utilization(gpus, with, 21 * day_s), 0.63, 0.005);
    ck_assert_double_eq_tol(textbook_utilization(gpus, without, 21 * day_s), 0.47, 0.005);
    ck_assert_double_eq_tol(textbook_utilization(sparse, with, 21 * day_s), 0.31, 0.005);
}
END_TEST

/* Rows of Narayanan et al. 2021, table 1 (s = 2048, V = 51200). Batch FLOPs over GPUs
 * times the published rate; 1.7B: 96 x 512 x 2048 x 24 x 2304^2 x 1.206 / (32 x 137e12) s. */
START_TEST(iteration_times_of_table_1_follow_from_its_flops)
{
    static const struct {
        int layers, hidden, batch, gpus;
        double flops_per_s, step_s;
    } table[] = {
        { 24, 2304, 512, 32, 137e12, 3.528 },       { 48, 8192, 1536, 512, 138e12, 14.453 },
        { 80, 12288, 2304, 1536, 148e12, 24.817 },  { 105, 20480, 2520, 2520, 163e12, 54.085 },
        { 128, 25600, 3072, 3072, 163e12, 102.63 },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct model model = { .layers = table[i].layers,
                               .hidden = table[i].hidden,
                               .vocab = 51200 };
        struct textbook_gpus gpus = { table[i].gpus, table[i].flops_per_s };
        double flops =
            textbook_recompute_flops(&model, (struct textbook_batch){ table[i].batch, 2048 });
        ck_assert_double_eq_tol(textbook_compute_s(gpus, flops, 1), table[i].step_s, 0.001);
    }
}
END_TEST

/* Korthikanti et al. 2022, table 5 prints 41.5, 51.4, 56.0 and 56.3. */
START_TEST(model_utilization_of_korthikanti_table_5_is_reproduced)
{
    const struct row *row = &rows[_i];
    struct textbook_gpus gpus = { row->gpus, a100_flops_per_s };
    double flops = textbook_model_flops(&row->model, row_batch(row));
    double percent = 100 * textbook_utilization(gpus, flops, row->step_s);
    ck_assert_double_eq_tol(percent, row->model_percent, 0.006);
}
END_TEST

/* Table 5 prints 43.7, 52.8, 57.0 and 57.0, which takes the overstated s/(3h). */
START_TEST(hardware_utilization_of_korthikanti_table_5_is_reproduced)
{
    const struct row *row = &rows[_i];
    struct textbook_gpus gpus = { row->gpus, a100_flops_per_s };
    double flops = textbook_selective_flops(&row->model, row_batch(row));
    double percent = 100 * textbook_utilization(gpus, flops, row->step_s);
    ck_assert_double_eq_tol(percent, row->hardware_percent, 0.006);
}
END_TEST

/* Korthikanti et al. 2022, abstract: 54.2 %. Eight replicas of 280 GPUs and 280 sequences each. */
START_TEST(model_530b_on_2240_gpus_at_54_2_percent_takes_39_12_s)
{
    struct textbook_gpus gpus = { 2240, a100_flops_per_s };
    double flops = textbook_model_flops(&rows[2].model, (struct textbook_batch){ 2240, 2048 });
    ck_assert_double_eq_tol(textbook_compute_s(gpus, flops, 0.542), 39.12, 0.005);
}
END_TEST

/* Replaying attention's forward is 4 B s^2 h a layer, 72 B s h^2 x s/(18h). s/(3h) - s/(6h) adds
 * three times that. */
START_TEST(hardware_flops_of_selective_recompute_count_the_replay_three_times)
{
    const struct row *row = &rows[1];
    struct textbook_batch batch = row_batch(row);
    double replayed =
        4.0 * batch.sequences * 2048.0 * 2048.0 * row->model.hidden * row->model.layers;
    double added =
        textbook_selective_flops(&row->model, batch) - textbook_model_flops(&row->model, batch);
    check_within(added, 3 * replayed, 1e-9);
}
END_TEST

/* Full recompute adds one of the layers' three passes and none of the head's. Without a head the
 * ratio is 4/3 exactly: 8TP over 6TP. */
START_TEST(full_recompute_is_a_third_more_work_in_the_layers)
{
    struct model headless = gpt3;
    headless.vocab = 0;
    struct textbook_batch batch = { 1, 2048 };
    double ratio =
        textbook_recompute_flops(&headless, batch) / textbook_model_flops(&headless, batch);
    check_within(ratio, 4.0 / 3, 1e-12);
}
END_TEST

/* llm-foundry's table, MPT-7B on H100, 10119 tokens/s a GPU:
 * (6 x 6658859008 + 12 x 32 x 4096 x 2048) x 10119 / 989.5e12. */
START_TEST(mosaicml_mfu_of_mpt_7b_is_44_15_percent)
{
    struct model mpt_7b = { .layers = 32, .hidden = 4096 };
    struct textbook_gpus h100 = { 1, 989.5e12 };
    double flops = 10119 * textbook_palm_token_flops(&mpt_7b, 6658859008.0, 2048);
    ck_assert_double_eq_tol(100 * textbook_utilization(h100, flops, 1), 44.15, 0.005);
}
END_TEST

/* fp32: 175e9 x 4 = 700 GB of weights, as much of gradients, two moments 1.4 TB. */
START_TEST(gpt3_in_fp32_keeps_700_gb_weights_700_gb_gradients_and_1400_gb_moments)
{
    struct textbook_state state = textbook_state(textbook_recipe_find("fp32"), 175e9, 0, 1);
    ck_assert_double_eq(state.weights_bytes, 700 * gb);
    ck_assert_double_eq(state.gradients_bytes, 700 * gb);
    ck_assert_double_eq(state.optimizer_bytes, 1400 * gb);
}
END_TEST

/* 96 x (2 x 2048^2 x 96 + 14 x 2048 x 12288) x 4 bytes = 444.5 GB (414 GiB), the lecture's 444 GB:
 * 63 % of 700 GB of weights, and at b = 128 (444 x 128) / 700 = 81 times them. */
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

/* (48 x 96 x 12288^2 values = 2783.1 GB) + 444.5 GB. */
START_TEST(training_memory_is_four_values_a_parameter_and_the_activations)
{
    double bytes = textbook_training_bytes(&gpt3, (struct textbook_batch){ 1, 2048 });
    check_within(bytes, 2783.14 * gb + 444.53 * gb, 1e-5);
}
END_TEST

/* 7e9 x 4 bytes = 28 GB of weights; with gradients and two moments 28 x 4 = 112 GB. */
START_TEST(seven_billion_parameters_in_fp32_take_112_gb)
{
    struct textbook_state state = textbook_state(textbook_recipe_find("fp32"), 7e9, 0, 1);
    ck_assert_double_eq(state.weights_bytes, 28 * gb);
    ck_assert_double_eq(textbook_state_bytes(&state), 112 * gb);
}
END_TEST

/* 2 + 2 + 2 + 2 = 8 bytes each. */
START_TEST(ten_billion_parameters_in_pure_bf16_take_80_gb)
{
    struct textbook_state state = textbook_state(textbook_recipe_find("bf16-pure"), 10e9, 0, 1);
    ck_assert_double_eq(textbook_state_bytes(&state), 80 * gb);
}
END_TEST

/* 32e9 / 16 = 2.0e9 and 11e9 / 16 = 0.69e9. */
START_TEST(sixteen_bytes_a_weight_bound_a_v100_to_2_0_and_a_2080_ti_to_0_7_billion)
{
    ck_assert_double_eq(textbook_largest_model(32 * gb, 16), 2.0e9);
    ck_assert_double_eq_tol(textbook_largest_model(11 * gb, 16), 0.7e9, 0.05e9);
}
END_TEST

/* Rajbhandari et al. 2020, figure 1: 7.5e9 parameters, 64 ranks, 2 + 2 + 12 bytes:
 * 16, 4 + 12/64, 2 + 14/64, 16/64 bytes each = 120, 31.4, 16.6, 1.9 GB. */
START_TEST(zero_takes_7_5_billion_parameters_from_120_to_31_4_to_16_6_to_1_9_gb)
{
    static const double expected_gb[] = { 120, 31.4, 16.6, 1.9 };
    const struct textbook_recipe *recipe = textbook_recipe_find("deepspeed");
    for (int zero = 0; zero <= 3; zero++) {
        struct textbook_state state = textbook_state(recipe, 7.5e9, zero, 64);
        ck_assert_double_eq_tol(textbook_state_bytes(&state) / gb, expected_gb[zero], 0.05);
    }
}
END_TEST

/* Megatron's documentation: 6 + 12/8 = 7.5, and 18 without the distributed optimizer. */
START_TEST(bf16_takes_18_bytes_a_parameter_and_7_5_over_eight_ranks)
{
    const struct textbook_recipe *recipe = textbook_recipe_find("bf16");
    struct textbook_state whole = textbook_state(recipe, 1, 0, 8);
    struct textbook_state sharded = textbook_state(recipe, 1, 1, 8);
    ck_assert_double_eq(textbook_state_bytes(&whole), 18);
    ck_assert_double_eq(textbook_state_bytes(&sharded), 7.5);
}
END_TEST

/* Megatron-LM docs, dist_optimizer.md; fp8: one byte or two instead of bf16's two; mxfp8: two
 * copies of 1 + 1/32. */
START_TEST(recipes_cost_what_their_documentation_says)
{
    static const struct {
        const char *name;
        double replicated, fixed, sharded; /* bytes; ZeRO-1 over d ranks: fixed + sharded / d */
    } documented[] = {
        { "fp32", 16, 8, 8 },
        { "fp16", 20, 4, 16 },
        { "bf16", 18, 6, 12 },
        { "deepspeed", 16, 4, 12 },
        { "bf16-pure", 8, 4, 4 },
        { "fp8", 17, 5, 12 },
        { "fp8-transposed", 18, 6, 12 },
        { "mxfp8", 18.0625, 6.0625, 12 },
        { "precision-aware", 14, 6, 8 },
    };
    ck_assert_int_eq(num_textbook_recipes, sizeof documented / sizeof *documented);
    for (int i = 0; i < num_textbook_recipes; i++) {
        const struct textbook_recipe *recipe = textbook_recipe_find(documented[i].name);
        ck_assert_ptr_nonnull(recipe);
        struct textbook_state whole = textbook_state(recipe, 1, 0, 16);
        struct textbook_state sharded = textbook_state(recipe, 1, 1, 16);
        ck_assert_double_eq(textbook_state_bytes(&whole), documented[i].replicated);
        ck_assert_double_eq(textbook_state_bytes(&sharded),
                            documented[i].fixed + documented[i].sharded / 16);
    }
}
END_TEST

START_TEST(an_unknown_recipe_is_not_found)
{
    ck_assert_ptr_null(textbook_recipe_find("bf17"));
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

/* 2 x (4 x 100 + 8/4 x 50) = 1000, of which 800 don't shrink; gradients are 2 x 100. */
START_TEST(data_parallelism_divides_activations_but_not_state)
{
    ck_assert_double_eq(textbook_data_parallel_bytes(100, 50, 8.0 / 4), 1000);
    ck_assert_double_eq(textbook_data_parallel_bytes(100, 50, 0), 800);
    ck_assert_double_eq(textbook_data_parallel_traffic_bytes(100), 200);
}
END_TEST

/* t = 1: s b h (34 + 5 a s / h), with a s / h = 96 x 2048 / 12288 = 16: 114 x 2048 x 12288. */
START_TEST(a_gpt3_layer_keeps_34_plus_80_bytes_a_value)
{
    double bytes = textbook_layer_activation_bytes(&gpt3, TEXTBOOK_KEEP_ALL, 1,
                                                   (struct textbook_batch){ 1, 2048 });
    ck_assert_double_eq(bytes, 114.0 * 2048 * 12288);
}
END_TEST

/* Korthikanti et al. 2022, figure 1. 22B: 48 layers x 48 MiB (= s b h) x
 * (10 + 24/8 + 5 x 64 x 2048 / (6144 x 8)) = 59.25 GiB, and x 34/8 = 9.5625 GiB. */
START_TEST(activations_of_korthikanti_figure_1_are_reproduced)
{
    const struct row *row = &rows[_i];
    double layers = textbook_layers_in_flight(row->pipeline, row->model.layers);
    double all_bytes = layers * row_layer_bytes(row, TEXTBOOK_KEEP_ALL);
    double sharded_bytes = layers * row_layer_bytes(row, TEXTBOOK_KEEP_SEQUENCE_SELECTIVE);
    check_within(all_bytes, row->all_gib * gib, 1e-12);
    check_within(sharded_bytes, row->sharded_gib * gib, 1e-12);
}
END_TEST

/* Figure 1's other part, 18 bytes for each of 12 l h^2 / (t p) parameters.
 * 22B: 12 x 48 x 6144^2 / 8 x 18 = 45.5625 GiB. */
START_TEST(weights_and_optimizer_of_korthikanti_figure_1_are_reproduced)
{
    const struct row *row = &rows[_i];
    double layer_parameters = textbook_layer_parameters(&row->model) * row->model.layers;
    double shard = layer_parameters / (row->tensor * row->pipeline.stages);
    struct textbook_state state = textbook_state(textbook_recipe_find("bf16"), shard, 0, 1);
    check_within(textbook_state_bytes(&state), row->static_gib * gib, 1e-12);
}
END_TEST

/* Figure 7, percent of what tensor parallelism alone keeps. 22B: 26.33 = 13 + 13.33 bytes
 * a value; (4.25 + 13.33), 13, 4.25 and 2 of it. */
START_TEST(savings_of_korthikanti_figure_7_are_reproduced)
{
    const struct row *row = &rows[_i];
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
        ck_assert_double_ge(textbook_layer_activation_bytes(&gpt3, keep, tensor, microbatch),
                            textbook_layer_activation_bytes(&gpt3, keep, 2 * tensor, microbatch));
}
END_TEST

/* With one rank there is nothing that sequence parallelism could shard. */
START_TEST(sequence_parallelism_over_one_rank_keeps_the_same)
{
    static const enum textbook_keep pairs[][2] = {
        { TEXTBOOK_KEEP_ALL, TEXTBOOK_KEEP_SEQUENCE },
        { TEXTBOOK_KEEP_SELECTIVE, TEXTBOOK_KEEP_SEQUENCE_SELECTIVE },
        { TEXTBOOK_KEEP_INPUT, TEXTBOOK_KEEP_SEQUENCE_INPUT },
    };
    struct textbook_batch microbatch = { 2, 2048 };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        ck_assert_double_eq(textbook_layer_activation_bytes(&gpt3, pairs[i][0], 1, microbatch),
                            textbook_layer_activation_bytes(&gpt3, pairs[i][1], 1, microbatch));
}
END_TEST

/* A replayed layer holds as much as a layer that was never dropped. */
START_TEST(only_full_recompute_has_a_working_set)
{
    enum textbook_keep keep = (enum textbook_keep)_i;
    struct textbook_batch microbatch = { 1, 2048 };
    double working_set = textbook_working_set_bytes(&gpt3, keep, 8, microbatch);
    if (!textbook_keep_recomputes_all(keep))
        ck_assert_double_eq(working_set, 0);
    else
        ck_assert_double_gt(working_set,
                            textbook_layer_activation_bytes(&gpt3, keep, 8, microbatch));
}
END_TEST

/* 96 layers: K = sqrt(96) = 9.80 holds 19.6; a checkpoint every layer 97, none 97. */
START_TEST(checkpoint_memory_is_least_at_the_root_of_the_layers)
{
    double best = textbook_best_interval(96);
    double least = textbook_checkpointed_layers(96, best);
    check_within(least, 2 * sqrt(96.0), 1e-12);
    for (int interval = 1; interval <= 96; interval++)
        ck_assert_double_ge(textbook_checkpointed_layers(96, interval), least);
}
END_TEST

static const struct textbook_link link = { .latency_s = 5e-6, .bytes_per_s = 50e9 };

/* 2 x 7 x (5 us + 1e9 / (8 x 50e9) s = 2500 us) = 35070 us. */
START_TEST(a_ring_all_reduces_1_gb_over_eight_ranks_in_35_07_ms)
{
    check_within(textbook_ring_all_reduce_s(&link, 8, 1e9), 35.07e-3, 1e-12);
}
END_TEST

START_TEST(ring_all_reduce_is_reduce_scatter_and_all_gather)
{
    for (int ranks = 1; ranks <= 1024; ranks *= 2)
        for (int bytes = 1; bytes < 1000000000; bytes *= 10)
            ck_assert_double_eq(textbook_ring_all_reduce_s(&link, ranks, bytes),
                                textbook_ring_reduce_scatter_s(&link, ranks, bytes) +
                                    textbook_ring_all_gather_s(&link, ranks, bytes));
}
END_TEST

START_TEST(one_rank_communicates_nothing)
{
    ck_assert_double_eq(textbook_ring_all_reduce_s(&link, 1, 1e9), 0);
    ck_assert_double_eq(textbook_ring_all_gather_s(&link, 1, 1e9), 0);
    ck_assert_double_eq(textbook_ring_reduce_scatter_s(&link, 1, 1e9), 0);
    ck_assert_double_eq(textbook_tree_all_reduce_s(&link, 1, 1e9), 0);
}
END_TEST

/* Over 1024 ranks an empty message takes a ring 2046 latencies and a tree 20; a large one takes the
 * ring 2 x 1023/1024 S/B and the tree 2 S/B. */
START_TEST(a_tree_wins_on_small_messages_and_a_ring_on_large_ones)
{
    check_within(textbook_ring_all_reduce_s(&link, 1024, 0), 2046 * 5e-6, 1e-12);
    check_within(textbook_tree_all_reduce_s(&link, 1024, 0), 20 * 5e-6, 1e-12);
    ck_assert_double_lt(textbook_ring_all_reduce_s(&link, 1024, 1e15),
                        textbook_tree_all_reduce_s(&link, 1024, 1e15));
}
END_TEST

/* 2 x 16 x 1e9 / (4 x 50e9) = 0.16 s; it grows with workers as a ring does not. */
START_TEST(sixteen_workers_and_four_servers_exchange_1_gb_in_160_ms)
{
    check_within(textbook_parameter_server_s(&link, 16, 4, 1e9), 0.16, 1e-12);
    check_within(textbook_parameter_server_s(&link, 32, 4, 1e9), 0.32, 1e-12);
}
END_TEST

START_TEST(twice_the_bandwidth_at_half_the_latency_is_half_the_time)
{
    struct textbook_link fast = { link.latency_s / 2, link.bytes_per_s * 2 };
    check_within(textbook_ring_all_reduce_s(&link, 8, 1e6),
                 2 * textbook_ring_all_reduce_s(&fast, 8, 1e6), 1e-12);
    check_within(textbook_tree_all_reduce_s(&link, 8, 1e6),
                 2 * textbook_tree_all_reduce_s(&fast, 8, 1e6), 1e-12);
}
END_TEST

/* 15 / (8 x 128 + 15) = 1.443 % and 15 / (128 + 15) = 10.49 %. */
START_TEST(sixteen_stages_idle_10_49_percent_and_1_44_in_eight_chunks)
{
    struct textbook_pipeline plain = { .stages = 16, .chunks = 1, .microbatches = 128 };
    struct textbook_pipeline chunked = { .stages = 16, .chunks = 8, .microbatches = 128 };
    ck_assert_double_eq_tol(100 * textbook_bubble_of_total(plain), 10.49, 0.005);
    ck_assert_double_eq_tol(100 * textbook_bubble_of_total(chunked), 1.4437, 0.00005);
}
END_TEST

/* u / (1 + u) = (p-1) / (v m + p-1) when u = (p-1) / (v m). */
START_TEST(bubble_of_total_is_bubble_of_useful_over_one_more)
{
    struct textbook_pipeline pipeline = { .stages = 8, .chunks = 2, .microbatches = 12 };
    double useful = textbook_bubble_of_useful(pipeline);
    check_within(useful, 7.0 / 24, 1e-12);
    check_within(textbook_bubble_of_total(pipeline), useful / (1 + useful), 1e-12);
}
END_TEST

START_TEST(one_stage_has_no_bubble_and_no_transfers)
{
    struct textbook_pipeline pipeline = { .stages = 1, .chunks = 1, .microbatches = 8 };
    ck_assert_double_eq(textbook_bubble_of_useful(pipeline), 0);
    ck_assert_double_eq(textbook_bubble_of_total(pipeline), 0);
    ck_assert_double_eq(textbook_pipeline_low_s(pipeline, 1), 0);
    ck_assert_double_eq(textbook_pipeline_high_s(pipeline, 1), 0);
}
END_TEST

/* Discrete-event simulation of blocking 1F1B with p = 8, m = 64 exposes 2m(p-1)/p + 2(p-2) = 124
 * messages, between 2 x 7 = 14 and 2 x (7 + 63) = 140. Interleaved p = 8, v = 4 exposes 62 = 2 x
 * 31, within 2 x (31 + 4 x 63) = 566. */
START_TEST(the_bounds_on_transfers_hold_for_simulated_schedules)
{
    struct textbook_pipeline plain = { .stages = 8, .chunks = 1, .microbatches = 64 };
    struct textbook_pipeline chunked = { .stages = 8, .chunks = 4, .microbatches = 64 };
    ck_assert_double_eq(textbook_pipeline_low_s(plain, 1), 14);
    ck_assert_double_eq(textbook_pipeline_high_s(plain, 1), 140);
    ck_assert_double_eq(textbook_pipeline_low_s(chunked, 1), 62);
    ck_assert_double_eq(textbook_pipeline_high_s(chunked, 1), 566);
}
END_TEST

/* 96 layers: plain 1F1B holds all 96 at stage 0; p = 8, v = 3 holds 96 (1 + 7/24) = 124; with two
 * microbatches no more than 2 x 96/8 = 24. */
START_TEST(stage_0_holds_all_layers_and_more_when_interleaved)
{
    struct textbook_pipeline plain = { .stages = 8, .chunks = 1, .microbatches = 64 };
    struct textbook_pipeline chunked = { .stages = 8, .chunks = 3, .microbatches = 64 };
    struct textbook_pipeline few = { .stages = 8, .chunks = 1, .microbatches = 2 };
    check_within(textbook_layers_in_flight(plain, 96), 96, 1e-12);
    check_within(textbook_layers_in_flight(chunked, 96), 124, 1e-12);
    check_within(textbook_layers_in_flight(few, 96), 24, 1e-12);
}
END_TEST

/* Llama 3: 419 failures in 54 days on 2048 nodes are 3.79 per 1000 node-days, one in
 * 24000 / (3.79 x 2048) = 3.09 h. Meta's RSC-1 at 6.5, 16384 and 131072
 * GPUs: 1.80 h and 0.225 h. */
START_TEST(time_between_failures_falls_with_nodes)
{
    ck_assert_double_eq_tol(textbook_mtbf_s(3.79, 2048) / 3600, 3.09, 0.005);
    ck_assert_double_eq_tol(textbook_mtbf_s(6.5, 16384 / 8) / 3600, 1.80, 0.005);
    ck_assert_double_eq_tol(textbook_mtbf_s(6.5, 131072 / 8) / 3600, 0.225, 0.0005);
}
END_TEST

/* sqrt(2 x 120 x 11135.08) = 1634.75; E = t / (M e^(900/M) (e^((t+120)/M) - 1)). */
START_TEST(llama_3_at_two_minutes_a_checkpoint_keeps_79_percent_of_its_time)
{
    struct textbook_failure failure = { 11135.08, 120, 900 };
    double interval_s = textbook_young_s(&failure);
    ck_assert_double_eq_tol(interval_s, 1634.75, 0.005);
    ck_assert_double_eq_tol(textbook_ettr_exact(&failure, interval_s), 0.7934, 0.0001);
}
END_TEST

/* C = 30, R = 600 gives t = 817, 0.880, and 0.887 by the linear form. */
START_TEST(the_linear_form_is_more_hopeful_than_the_exact_one)
{
    struct textbook_failure failure = { 11135, 30, 600 };
    double interval_s = textbook_young_s(&failure);
    ck_assert_double_eq_tol(interval_s, 817, 0.5);
    ck_assert_double_eq_tol(textbook_ettr_exact(&failure, interval_s), 0.880, 0.0005);
    ck_assert_double_eq_tol(textbook_ettr_linear(&failure, interval_s), 0.887, 0.0005);
}
END_TEST

START_TEST(no_interval_beats_young_by_the_linear_form)
{
    struct textbook_failure failure = { 11135, 120, 900 };
    double best = textbook_ettr_linear(&failure, textbook_young_s(&failure));
    for (int interval_s = 60; interval_s < 11135; interval_s += 60)
        ck_assert_double_le(textbook_ettr_linear(&failure, interval_s), best);
}
END_TEST

/* Daly's interval is a series for the maximum of the exact form: at x = sqrt(120 / 22270) = 0.073
 * it misses it by less than 1e-6 while Young's misses by more. */
START_TEST(daly_comes_closer_than_young_to_the_best_exact_interval)
{
    struct textbook_failure failure = { 11135, 120, 900 };
    double best = 0;
    for (int interval_s = 60; interval_s < 11135; interval_s++)
        best = fmax(best, textbook_ettr_exact(&failure, interval_s));
    double daly = textbook_ettr_exact(&failure, textbook_daly_s(&failure));
    double young = textbook_ettr_exact(&failure, textbook_young_s(&failure));
    ck_assert_double_eq_tol(daly, best, 1e-6);
    ck_assert_double_gt(best - young, 1e-5);
}
END_TEST

START_TEST(checkpoints_longer_than_two_failures_apart_are_taken_once_a_failure)
{
    struct textbook_failure failure = { 100, 200, 0 };
    ck_assert_double_eq(textbook_daly_s(&failure), 100);
}
END_TEST

/* Llama 3.1, model card: 39.3e6 GPU-hours x 700 W = 27.51 GWh; at 414 g/kWh 11,390 t. */
START_TEST(llama_3_1_takes_27_51_gwh_and_emits_11390_tonnes)
{
    double energy_wh = textbook_energy_wh(39.3e6 * 3600, 700);
    check_within(energy_wh, 27.51e9, 1e-12);
    check_within(textbook_gco2(energy_wh, 414), 11390e6, 1e-3);
}
END_TEST

/* Numbers that divide well. l = 8, h = 100, a = 10, v = 1000, s = 10: 12 x 8 x 100^2 + 2 x 1000 x
 * 100 = 1.16e6 parameters, on t = p = d = 2 with 4 microbatches of one sequence. */
static const struct model small = { .layers = 8, .hidden = 100, .heads = 10, .vocab = 1000 };

static struct textbook_setup small_setup(void)
{
    const struct textbook_link slow = { .latency_s = 1e-3, .bytes_per_s = 1e6 };
    return (struct textbook_setup){
        .model = &small,
        .tensor = 2,
        .pipeline = 2,
        .chunks = 1,
        .data = 2,
        .microbatch = 1,
        .batch = 8,
        .seq = 10,
        .recipe = textbook_recipe_find("bf16"),
        .keep = TEXTBOOK_KEEP_ALL,
        .peak_flops_per_s = 1e6,
        .utilization = 0.5,
        .tensor_link = slow,
        .pipeline_link = slow,
        .data_link = slow,
    };
}

START_TEST(the_parts_of_a_small_step_follow_by_hand)
{
    struct textbook_setup setup = small_setup();
    struct textbook_estimate got = textbook_estimate(&setup);
    ck_assert_double_eq(got.parameters, 1.16e6);
    ck_assert_double_eq(got.tokens, 80);
    ck_assert_double_eq(got.flops, 556.8e6); /* 6 x 80 x 1.16e6 */
    ck_assert_double_eq(got.microbatches, 4);
    check_within(got.compute_s, 139.2, 1e-12); /* 556.8e6 / (8 x 1e6 x 0.5) */
    check_within(got.bubble_s, 34.8, 1e-12);   /* 139.2 x 1/4 */
    /* 4 microbatches x 4 layers x 4 all-reduces x 2 (1 ms + 2000 B / 2 / 1e6 B/s = 1 ms) */
    check_within(got.tensor_comm_s, 0.256, 1e-12);
    /* 0.29e6 parameters x 4 B = 1.16e6 B: 2 (1 ms + 0.58 s) */
    check_within(got.data_comm_s, 1.162, 1e-12);
    check_within(got.pipeline_comm_low_s, 0.006, 1e-12);  /* 2 x 1 x (1 ms + 2 ms) */
    check_within(got.pipeline_comm_high_s, 0.024, 1e-12); /* 2 x (1 + 3) x 3 ms */
    check_within(got.step_s, 175.424, 1e-12);
    check_within(got.step_high_s, 175.442, 1e-12);
    check_within(got.tokens_per_s, 80 / 175.424, 1e-12);
}
END_TEST

START_TEST(the_memory_of_a_small_rank_follows_by_hand)
{
    struct textbook_setup setup = small_setup();
    struct textbook_estimate got = textbook_estimate(&setup);
    ck_assert_double_eq(got.weights_bytes, 0.58e6); /* 0.29e6 x 2, 4, 12 */
    ck_assert_double_eq(got.gradients_bytes, 1.16e6);
    ck_assert_double_eq(got.optimizer_bytes, 3.48e6);
    /* s b h = 1000, a s / h = 1: 8 layers x 1000 x (10 + (24 + 5)/2) */
    ck_assert_double_eq(got.activations_bytes, 196e3);
    ck_assert_double_eq(got.working_set_bytes, 0);
    ck_assert_double_eq(got.memory_bytes, 5.416e6);
}
END_TEST

/* 8TP is 4/3 of 6TP, and six all-reduces replace four; layers keep 2 bytes a value, and one is
 * replayed. */
START_TEST(full_recompute_trades_a_third_more_time_for_memory)
{
    struct textbook_setup setup = small_setup();
    setup.keep = TEXTBOOK_KEEP_INPUT;
    struct textbook_estimate got = textbook_estimate(&setup);
    check_within(got.compute_s, 139.2 * 4 / 3, 1e-12);
    check_within(got.tensor_comm_s, 0.384, 1e-12);
    ck_assert_double_eq(got.activations_bytes, 16e3);
    ck_assert_double_eq(got.working_set_bytes, 24.5e3);
}
END_TEST

/* Gradients 1.16e6 B, weights 0.58e6 B: a pass is 1 ms and half of either at 1e6 B/s, 0.581 and
 * 0.291 s. */
START_TEST(zero_scatters_gradients_and_gathers_weights)
{
    struct textbook_setup setup = small_setup();
    static const double expected_s[] = { 1.162, 0.872, 0.872, 1.163 };
    for (setup.zero = 0; setup.zero <= 3; setup.zero++)
        check_within(textbook_estimate(&setup).data_comm_s, expected_s[setup.zero], 1e-12);
}
END_TEST

/* ZeRO 3 communicates half as much again as plain data parallelism when all is in one precision.
 * Rajbhandari et al. 2020, section 7. */
START_TEST(zero_3_communicates_half_as_much_again_in_one_precision)
{
    struct textbook_setup setup = small_setup();
    setup.recipe = textbook_recipe_find("deepspeed");
    double plain_s = textbook_estimate(&setup).data_comm_s;
    setup.zero = 2;
    check_within(textbook_estimate(&setup).data_comm_s, plain_s, 1e-12);
    setup.zero = 3;
    check_within(textbook_estimate(&setup).data_comm_s, 1.5 * plain_s, 1e-12);
}
END_TEST

START_TEST(a_single_gpu_only_computes)
{
    struct textbook_setup setup = small_setup();
    setup.tensor = setup.pipeline = setup.data = 1;
    struct textbook_estimate got = textbook_estimate(&setup);
    ck_assert_double_eq(got.bubble_s, 0);
    ck_assert_double_eq(got.tensor_comm_s, 0);
    ck_assert_double_eq(got.data_comm_s, 0);
    ck_assert_double_eq(got.pipeline_comm_low_s, 0);
    ck_assert_double_eq(got.pipeline_comm_high_s, 0);
    ck_assert_double_eq(got.step_s, got.compute_s);
}
END_TEST

/* Steps of 1536 sequences through 300e9 tokens are the 33.91 days above, but for P: 175.18e9
 * instead of 175e9, 0.1 % more. */
START_TEST(all_steps_of_gpt3_add_up_to_its_34_days)
{
    struct textbook_setup setup = small_setup();
    setup.model = &gpt3;
    setup.data = 256; /* 2 x 2 x 256 = 1024 GPUs */
    setup.batch = 1536;
    setup.seq = 2048;
    setup.keep = TEXTBOOK_KEEP_INPUT;
    setup.peak_flops_per_s = a100_flops_per_s;
    setup.utilization = 140e12 / a100_flops_per_s;
    struct textbook_estimate got = textbook_estimate(&setup);
    check_within(got.compute_s * (300e9 / got.tokens) / day_s, 33.91, 2e-3);
}
END_TEST

/* Every member is a double and has a row, so explain shows all of them. */
START_TEST(every_part_of_an_estimate_has_a_name_and_a_formula)
{
    ck_assert_uint_eq(num_textbook_estimate_fields * sizeof(double),
                      sizeof(struct textbook_estimate));
    for (size_t i = 0; i < num_textbook_estimate_fields; i++) {
        ck_assert_uint_eq(textbook_estimate_fields[i].offset, i * sizeof(double));
        ck_assert_str_ne(textbook_estimate_fields[i].doc, "");
    }
}
END_TEST

static TCase *work_tests(void)
{
    TCase *tc = tcase_create("work");
    tcase_add_test(tc, gpt3_has_175_billion_parameters_by_the_textbook);
    tcase_add_test(tc, gpt3_takes_34_days_on_1024_a100_at_140_tflops);
    tcase_add_test(tc, gpt3_in_35_days_on_1024_a100_uses_0_435_of_the_peak);
    tcase_add_test(tc, a_trillion_parameters_take_84_days_on_3072_a100);
    tcase_add_test(tc, opt_175b_in_33_days_on_1024_a100_uses_0_47_of_the_peak);
    tcase_add_test(tc, gpt3_in_14_8_days_on_10000_v100_uses_0_20_of_the_peak);
    tcase_add_test(tc, llama_65b_uses_0_63_of_the_peak_with_recompute_and_0_47_without);
    tcase_add_test(tc, iteration_times_of_table_1_follow_from_its_flops);
    tcase_add_loop_test(tc, model_utilization_of_korthikanti_table_5_is_reproduced, 0, NUM_ROWS);
    tcase_add_loop_test(tc, hardware_utilization_of_korthikanti_table_5_is_reproduced, 0, NUM_ROWS);
    tcase_add_test(tc, model_530b_on_2240_gpus_at_54_2_percent_takes_39_12_s);
    tcase_add_test(tc, hardware_flops_of_selective_recompute_count_the_replay_three_times);
    tcase_add_test(tc, full_recompute_is_a_third_more_work_in_the_layers);
    tcase_add_test(tc, mosaicml_mfu_of_mpt_7b_is_44_15_percent);
    return tc;
}

static TCase *memory_tests(void)
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
    tcase_add_test(tc, an_unknown_recipe_is_not_found);
    tcase_add_loop_test(tc, zero_over_one_rank_saves_nothing, 0, num_textbook_recipes);
    tcase_add_loop_test(tc, each_zero_stage_takes_less_than_the_one_before, 0,
                        num_textbook_recipes);
    tcase_add_test(tc, data_parallelism_divides_activations_but_not_state);
    tcase_add_test(tc, a_gpt3_layer_keeps_34_plus_80_bytes_a_value);
    tcase_add_loop_test(tc, activations_of_korthikanti_figure_1_are_reproduced, 0, NUM_ROWS);
    tcase_add_loop_test(tc, weights_and_optimizer_of_korthikanti_figure_1_are_reproduced, 0,
                        NUM_ROWS);
    tcase_add_loop_test(tc, savings_of_korthikanti_figure_7_are_reproduced, 0, NUM_ROWS);
    tcase_add_loop_test(tc, sharding_over_more_tensor_ranks_never_keeps_more, 0,
                        NUM_TEXTBOOK_KEEPS);
    tcase_add_test(tc, sequence_parallelism_over_one_rank_keeps_the_same);
    tcase_add_loop_test(tc, only_full_recompute_has_a_working_set, 0, NUM_TEXTBOOK_KEEPS);
    tcase_add_test(tc, checkpoint_memory_is_least_at_the_root_of_the_layers);
    return tc;
}

static TCase *communication_tests(void)
{
    TCase *tc = tcase_create("communication");
    tcase_add_test(tc, a_ring_all_reduces_1_gb_over_eight_ranks_in_35_07_ms);
    tcase_add_test(tc, ring_all_reduce_is_reduce_scatter_and_all_gather);
    tcase_add_test(tc, one_rank_communicates_nothing);
    tcase_add_test(tc, a_tree_wins_on_small_messages_and_a_ring_on_large_ones);
    tcase_add_test(tc, sixteen_workers_and_four_servers_exchange_1_gb_in_160_ms);
    tcase_add_test(tc, twice_the_bandwidth_at_half_the_latency_is_half_the_time);
    return tc;
}

static TCase *pipeline_tests(void)
{
    TCase *tc = tcase_create("pipeline");
    tcase_add_test(tc, sixteen_stages_idle_10_49_percent_and_1_44_in_eight_chunks);
    tcase_add_test(tc, bubble_of_total_is_bubble_of_useful_over_one_more);
    tcase_add_test(tc, one_stage_has_no_bubble_and_no_transfers);
    tcase_add_test(tc, the_bounds_on_transfers_hold_for_simulated_schedules);
    tcase_add_test(tc, stage_0_holds_all_layers_and_more_when_interleaved);
    return tc;
}

static TCase *failure_tests(void)
{
    TCase *tc = tcase_create("failure");
    tcase_add_test(tc, time_between_failures_falls_with_nodes);
    tcase_add_test(tc, llama_3_at_two_minutes_a_checkpoint_keeps_79_percent_of_its_time);
    tcase_add_test(tc, the_linear_form_is_more_hopeful_than_the_exact_one);
    tcase_add_test(tc, no_interval_beats_young_by_the_linear_form);
    tcase_add_test(tc, daly_comes_closer_than_young_to_the_best_exact_interval);
    tcase_add_test(tc, checkpoints_longer_than_two_failures_apart_are_taken_once_a_failure);
    tcase_add_test(tc, llama_3_1_takes_27_51_gwh_and_emits_11390_tonnes);
    return tc;
}

static TCase *estimate_tests(void)
{
    TCase *tc = tcase_create("estimate");
    tcase_add_test(tc, the_parts_of_a_small_step_follow_by_hand);
    tcase_add_test(tc, the_memory_of_a_small_rank_follows_by_hand);
    tcase_add_test(tc, full_recompute_trades_a_third_more_time_for_memory);
    tcase_add_test(tc, zero_scatters_gradients_and_gathers_weights);
    tcase_add_test(tc, zero_3_communicates_half_as_much_again_in_one_precision);
    tcase_add_test(tc, a_single_gpu_only_computes);
    tcase_add_test(tc, all_steps_of_gpt3_add_up_to_its_34_days);
    tcase_add_test(tc, every_part_of_an_estimate_has_a_name_and_a_formula);
    return tc;
}

static Suite *suite(void)
{
    Suite *s = suite_create("sim/textbook");
    suite_add_tcase(s, work_tests());
    suite_add_tcase(s, memory_tests());
    suite_add_tcase(s, communication_tests());
    suite_add_tcase(s, pipeline_tests());
    suite_add_tcase(s, failure_tests());
    suite_add_tcase(s, estimate_tests());
    return s;
}

TEST_MAIN(suite)
