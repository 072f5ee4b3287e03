#include "sim/textbook/work.h"

#include "tests/sim/textbook/textbook_runs.h"
#include "tests/testing.h"

static const double day_s = 86400;
static const double v100_flops_per_s = 125e12;

static struct textbook_batch row_batch(const struct textbook_run *row)
{
    return (struct textbook_batch){ .sequences = row->batch, .seq = 2048 };
}

/* 12 x 96 x 12288^2 + 2 x 50257 x 12288 is 173.946e9 + 1.235e9. */
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
    double flops = textbook_flops(175e9, 300e9, 1);
    double days = textbook_compute_s(gpus, flops, 140e12 / a100_flops_per_s) / day_s;
    ck_assert_double_eq_tol(days, 33.91, 0.005);
}
END_TEST

/* The utilization is 8 FLOPs x tokens x parameters / (GPUs x peak x time) = 4.2e23 / (1024 x 312e12
 * x 35 x 86400) = 0.4347; the lecture (docs/lecture.md) prints 0.44. In 34 days it would be
 * 0.4475. */
START_TEST(gpt3_in_35_days_on_1024_a100_uses_0_435_of_the_peak)
{
    struct textbook_gpus gpus = { 1024, a100_flops_per_s };
    double flops = textbook_flops(175e9, 300e9, 1);
    ck_assert_double_eq_tol(textbook_utilization(gpus, flops, 35 * day_s), 0.4347, 0.00005);
    ck_assert_double_eq_tol(textbook_utilization(gpus, flops, 34 * day_s), 0.4475, 0.00005);
}
END_TEST

/* Narayanan et al. 2021, section 5.1: 8 x 450e9 x 1.008e12 / (3072 x 163e12) s = 83.9 days,
 * published as 84. */
START_TEST(a_trillion_parameters_take_84_days_on_3072_a100)
{
    struct textbook_gpus gpus = { 3072, a100_flops_per_s };
    double flops = textbook_flops(1.008e12, 450e9, 1);
    double days = textbook_compute_s(gpus, flops, 163e12 / a100_flops_per_s) / day_s;
    ck_assert_double_eq_tol(days, 83.9, 0.05);
}
END_TEST

/* With the lecture's numbers for OPT-175B, the utilization is 4.3e23 FLOPs / (1024 x 312e12 x 33 x
 * 86400) = 0.472. Zhang et al. 2022 state 992 GPUs, which gives 0.487. */
START_TEST(opt_175b_in_33_days_on_1024_a100_uses_0_47_of_the_peak)
{
    struct textbook_gpus gpus = { 1024, a100_flops_per_s };
    ck_assert_double_eq_tol(textbook_utilization(gpus, 4.3e23, 33 * day_s), 0.47, 0.005);
}
END_TEST

/* The utilization is 3.14e23 FLOPs / (10000 x 125e12 x 14.8 x 86400) = 0.196. */
START_TEST(gpt3_in_14_8_days_on_10000_v100_uses_0_20_of_the_peak)
{
    struct textbook_gpus gpus = { 10000, v100_flops_per_s };
    ck_assert_double_eq_tol(textbook_utilization(gpus, 3.14e23, 14.8 * day_s), 0.20, 0.005);
}
END_TEST

/* Touvron et al. 2023 trained on 1.4e12 tokens with 2048 A100 for 21 days. 8 FLOPs per token and
 * parameter are 7.28e23 FLOPs, 0.628 of the dense 312 TFLOP/s; 6 FLOPs are 0.471. The lecture's 0.3
 * follows only if 8 FLOPs are divided by the peak with sparsity, 624 TFLOP/s: 0.314. */
START_TEST(llama_65b_uses_0_63_of_the_peak_with_recompute_and_0_47_without)
{
    struct textbook_gpus gpus = { 2048, a100_flops_per_s };
    struct textbook_gpus sparse = { 2048, 2 * a100_flops_per_s };
    double with = textbook_flops(65e9, 1.4e12, 1);
    double without = textbook_flops(65e9, 1.4e12, 0);
    ck_assert_double_eq_tol(textbook_utilization(gpus, with, 21 * day_s), 0.63, 0.005);
    ck_assert_double_eq_tol(textbook_utilization(gpus, without, 21 * day_s), 0.47, 0.005);
    ck_assert_double_eq_tol(textbook_utilization(sparse, with, 21 * day_s), 0.31, 0.005);
}
END_TEST

/* The rows are those of Narayanan et al. 2021, table 1 (s = 2048, V = 51200). The time is the FLOPs
 * of a batch / (GPUs x the published rate). For 1.7B it is 96 x 512 x 2048 x 24 x 2304^2 x 1.206 /
 * (32 x 137e12) s. */
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
    for (size_t i = 0; i < LENGTH(table); i++) {
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

/* Korthikanti et al. 2022, table 5, prints 41.5, 51.4, 56.0 and 56.3 %. */
START_TEST(model_utilization_of_korthikanti_table_5_is_reproduced)
{
    const struct textbook_run *row = &textbook_runs[_i];
    struct textbook_gpus gpus = { row->gpus, a100_flops_per_s };
    double flops = textbook_model_flops(&row->model, row_batch(row));
    double percent = 100 * textbook_utilization(gpus, flops, row->step_s);
    ck_assert_double_eq_tol(percent, row->model_percent, 0.006);
}
END_TEST

/* Korthikanti et al. 2022, table 5, prints 43.7, 52.8, 57.0 and 57.0 %. These follow from the term
 * s/(3h), which overstates the recomputation. */
START_TEST(hardware_utilization_of_korthikanti_table_5_is_reproduced)
{
    const struct textbook_run *row = &textbook_runs[_i];
    struct textbook_gpus gpus = { row->gpus, a100_flops_per_s };
    double flops = textbook_selective_flops(&row->model, row_batch(row));
    double percent = 100 * textbook_utilization(gpus, flops, row->step_s);
    ck_assert_double_eq_tol(percent, row->hardware_percent, 0.006);
}
END_TEST

/* The abstract of Korthikanti et al. 2022 states 54.2 %. The run has eight replicas of 280 GPUs and
 * 280 sequences each. */
START_TEST(model_530b_on_2240_gpus_at_54_2_percent_takes_39_12_s)
{
    struct textbook_gpus gpus = { 2240, a100_flops_per_s };
    double flops =
        textbook_model_flops(&textbook_runs[2].model, (struct textbook_batch){ 2240, 2048 });
    ck_assert_double_eq_tol(textbook_compute_s(gpus, flops, 0.542), 39.12, 0.005);
}
END_TEST

/* Recomputing attention's forward takes 4 B s^2 h FLOPs per layer, which is 72 B s h^2 x s/(18h).
 * The paper's s/(3h) instead of s/(6h) adds three times as many. */
START_TEST(hardware_flops_of_selective_recompute_count_the_replay_three_times)
{
    const struct textbook_run *row = &textbook_runs[1];
    struct textbook_batch batch = row_batch(row);
    double replayed =
        4.0 * batch.sequences * 2048.0 * 2048.0 * row->model.hidden * row->model.layers;
    double added =
        textbook_selective_flops(&row->model, batch) - textbook_model_flops(&row->model, batch);
    check_within(added, 3 * replayed, 1e-9);
}
END_TEST

/* Full recompute adds a fourth pass over the layers and none over the head. Without a head the
 * ratio is exactly 4/3: 8 over 6 FLOPs per token and parameter. */
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

/* By llm-foundry's table, MPT-7B reaches 10119 tokens/s per GPU on H100: (6 x 6658859008 + 12 x 32
 * x 4096 x 2048) x 10119 / 989.5e12. */
START_TEST(mosaicml_mfu_of_mpt_7b_is_44_15_percent)
{
    struct model mpt_7b = { .layers = 32, .hidden = 4096 };
    struct textbook_gpus h100 = { 1, 989.5e12 };
    double flops = 10119 * textbook_palm_token_flops(&mpt_7b, 6658859008.0, 2048);
    ck_assert_double_eq_tol(100 * textbook_utilization(h100, flops, 1), 44.15, 0.005);
}
END_TEST

static Suite *suite(void)
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
    tcase_add_loop_test(tc, model_utilization_of_korthikanti_table_5_is_reproduced, 0,
                        NUM_TEXTBOOK_RUNS);
    tcase_add_loop_test(tc, hardware_utilization_of_korthikanti_table_5_is_reproduced, 0,
                        NUM_TEXTBOOK_RUNS);
    tcase_add_test(tc, model_530b_on_2240_gpus_at_54_2_percent_takes_39_12_s);
    tcase_add_test(tc, hardware_flops_of_selective_recompute_count_the_replay_three_times);
    tcase_add_test(tc, full_recompute_is_a_third_more_work_in_the_layers);
    tcase_add_test(tc, mosaicml_mfu_of_mpt_7b_is_44_15_percent);
    Suite *s = suite_create("sim/textbook/work");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
