#include "sim/cost/compute.h"
#include "sim/cost/power.h"
#include "tests/check_ok.h"
#include "tests/testing.h"

#include <math.h>

/* --- hand calculations --------------------------------------------------------------------------
 */

/* A GPU with 100 SMs of 1 TFLOP/s each, a memory of 1 TB/s, one tile size of 128 x 128, an
 * efficiency of 1/2 for all rates, and no queueing. */
static struct gpu round_gpu(void)
{
    struct gpu gpu = { .num_sms = 100, .memory_bytes_per_s = 1e12 };
    gpu.peak_flops_per_s[DTYPE_BF16] = 100e12;
    return gpu;
}

static struct profile round_profile(void)
{
    return (struct profile){
        .gemm_efficiency = 0.5,
        .unaligned_efficiency = 1,
        .gemm_unaligned_efficiency = 1,
        .sustained = 1,
        .gemm_memory_efficiency = 0.5,
        .memory_efficiency = 0.5,
        .batched_gemm_efficiency = 0.5,
        .gemm_tiles = { { 128, 128, 1 } },
        .num_gemm_tiles = 1,
        .attention[ATTENTION_FLASH2] = { 0.5, 0.4, 1000 },
    };
}

static double multiply_s(double m, double n, double k)
{
    struct gpu gpu = round_gpu();
    struct profile profile = round_profile();
    return gemm_s(&gpu, &profile, DTYPE_BF16, m, n, k, 0);
}

/* An unmeasured GPU is predicted to compute at its datasheet's rate, with tiles of 256 x 128. */
START_TEST(without_a_profile_a_gpu_reaches_its_datasheet_peaks)
{
    struct gpu gpu = round_gpu();
    struct profile profile = profile_missing("round");
    double wave_s = gemm_s(&gpu, &profile, DTYPE_BF16, 2560, 1280, 501, 0);
    ck_assert_double_eq_tol(wave_s, 2 * 2560.0 * 1280 * 501 / 100e12, 1e-12);
    ck_assert_double_eq_tol(gemm_s(&gpu, &profile, DTYPE_BF16, 2561, 1280, 501, 0), 2 * wave_s,
                            1e-12);
    ck_assert_double_eq_tol(gemm_s(&gpu, &profile, DTYPE_BF16, 2560, 1281, 501, 0), 2 * wave_s,
                            1e-12);
    ck_assert_double_eq_tol(gemm_s(&gpu, &profile, DTYPE_BF16, 1, 1, 1, 3e9), 3e-3, 1e-12);
    ck_assert_double_eq_tol(traffic_s(&gpu, &profile, 3e9, 7), 3e-3, 1e-12);
    struct op op = { .kind = OP_SCORES, .dtype = DTYPE_BF16, .n = 64, .k = 60, .flops = 1e12 };
    ck_assert_double_eq_tol(op_s(&gpu, &profile, ATTENTION_UNFUSED, &op), 0.01, 1e-12);
    op.kind = OP_FLASH_ATTENTION;
    for (int kernel = ATTENTION_FLASH1; kernel < NUM_ATTENTION_KERNELS; kernel++)
        ck_assert_double_eq_tol(op_s(&gpu, &profile, (enum attention_kernel)kernel, &op), 0.01,
                                1e-12);
    op.pass = PASS_BACKWARD_INPUT;
    ck_assert_double_eq_tol(op_s(&gpu, &profile, ATTENTION_FLASH2, &op), 0.01, 1e-12);
}
END_TEST

/* 10 x 10 tiles fill the 100 SMs once. Each takes 2 x 128 x 128 x 500 / (0.5 x 1e12) = 32.768 us.
 */
START_TEST(a_full_wave_of_tiles_takes_one_tiles_time)
{
    ck_assert_double_eq_tol(multiply_s(1280, 1280, 500), 32.768e-6, 1e-12);
}
END_TEST

/* A head dimension of 100 elements, 200 bytes, is no multiple of 16 bytes; 104 elements are. */
START_TEST(heads_not_aligned_to_16_bytes_have_the_unaligned_efficiency)
{
    struct gpu gpu = round_gpu();
    struct profile profile = round_profile();
    struct op op = { .kind = OP_SCORES, .dtype = DTYPE_BF16, .n = 4096, .k = 104, .flops = 1e9 };
    double whole_s = op_s(&gpu, &profile, ATTENTION_UNFUSED, &op);
    profile.unaligned_efficiency = 0.5;
    ck_assert_double_eq_tol(op_s(&gpu, &profile, ATTENTION_UNFUSED, &op), whole_s, 1e-15);
    op.k = 100;
    ck_assert_double_eq_tol(op_s(&gpu, &profile, ATTENTION_UNFUSED, &op), 2 * whole_s, 1e-15);
}
END_TEST

/* 1280, 1276 and 1273 columns need the same number of tiles. Rows of 2552 bytes are aligned to 4
 * bytes, rows of 2546 to 2. */
START_TEST(rows_aligned_to_4_bytes_are_slowed_by_the_root_of_the_factor_for_2_bytes)
{
    struct gpu gpu = round_gpu();
    struct profile profile = round_profile();
    profile.gemm_unaligned_efficiency = 0.25;
    double whole_s = gemm_s(&gpu, &profile, DTYPE_BF16, 1280, 1280, 512, 0);
    double half_s = gemm_s(&gpu, &profile, DTYPE_BF16, 1280, 1276, 512, 0);
    double odd_s = gemm_s(&gpu, &profile, DTYPE_BF16, 1280, 1273, 512, 0);
    ck_assert_double_eq_tol(half_s, 2 * whole_s, 1e-12);
    ck_assert_double_eq_tol(odd_s, 4 * whole_s, 1e-12);
}
END_TEST

/* A wave is one tile on each of the 100 SMs, so 101 tiles need two waves, and so do 200. */
START_TEST(a_tile_more_than_a_wave_takes_another_wave)
{
    ck_assert_double_eq_tol(multiply_s(128 * 101, 1, 500), 2 * 32.768e-6, 1e-12);
    ck_assert_double_eq_tol(multiply_s(128 * 200, 1, 500), 2 * 32.768e-6, 1e-12);
}
END_TEST

/* A tile with the inner dimension k takes the time of k + half_k at the full rate. */
START_TEST(half_the_rate_is_reached_at_half_k)
{
    struct gpu gpu = round_gpu();
    struct profile profile = round_profile();
    profile.gemm_half_k = 500;
    ck_assert_double_eq_tol(gemm_s(&gpu, &profile, DTYPE_BF16, 1280, 1280, 500, 0),
                            2 * multiply_s(1280, 1280, 500), 1e-12);
}
END_TEST

/* One tile with k = 4096 is split into 8 parts of 512. These take 2 x 128 x 128 x 512 / 0.5e12 =
 * 33.554432 us, and their fp32 sums 2 x 8 x 4 x 128 x 128 / 0.5e12 = 2.097152 us. Without splitting
 * it would take 268 us. */
START_TEST(a_long_inner_dimension_is_split_over_idle_sms)
{
    ck_assert_double_eq_tol(multiply_s(128, 128, 4096), 35.651584e-6, 1e-12);
}
END_TEST

/* 1 MB at half of 1 TB/s takes 2 us, longer than the multiplication. */
START_TEST(a_thin_product_takes_the_time_of_its_memory_traffic)
{
    struct gpu gpu = round_gpu();
    struct profile profile = round_profile();
    ck_assert_double_eq_tol(gemm_s(&gpu, &profile, DTYPE_BF16, 1, 1280, 1, 1e6), 2e-6, 1e-12);
}
END_TEST

/* Reading and writing 1280 x 1280 accumulators of 8 bytes at half of 1 TB/s takes 26.2 us. Half of
 * this time does not overlap the multiplications; the other half is hidden, because the
 * multiplications take longer. */
START_TEST(part_of_a_products_accumulator_traffic_is_exposed)
{
    struct gpu gpu = round_gpu();
    struct profile profile = round_profile();
    struct op op = { .kind = OP_GEMM,
                     .pass = PASS_BACKWARD_WEIGHT,
                     .dtype = DTYPE_BF16,
                     .batch = 1,
                     .m = 1280,
                     .n = 1280,
                     .k = 512 };
    op.bytes = op.sum_bytes = 8 * op.m * op.n;
    double hidden_s = op_s(&gpu, &profile, ATTENTION_UNFUSED, &op);
    ck_assert_double_eq_tol(hidden_s, multiply_s(1280, 1280, 512), 1e-12);
    profile.gemm_sum_exposed = 0.5;
    ck_assert_double_eq_tol(op_s(&gpu, &profile, ATTENTION_UNFUSED, &op), hidden_s + 13.1072e-6,
                            1e-12);
}
END_TEST

/* The time is 1 MB at half of 1 TB/s, plus three kernels of 3 us. */
START_TEST(memory_bound_ops_take_traffic_over_bandwidth_plus_kernel_starts)
{
    struct gpu gpu = round_gpu();
    struct profile profile = round_profile();
    profile.kernel_s = 3e-6;
    ck_assert_double_eq_tol(traffic_s(&gpu, &profile, 1e6, 3), 11e-6, 1e-12);
    ck_assert_double_eq(traffic_s(&gpu, &profile, 0, 1), profile.kernel_s);
}
END_TEST

static struct op attention_op(enum op_pass pass, double seq)
{
    return (struct op){ .kind = OP_FLASH_ATTENTION,
                        .pass = pass,
                        .dtype = DTYPE_BF16,
                        .m = seq,
                        .n = seq,
                        .flops = 1e9,
                        .kernels = 1 };
}

/* Flash attention reaches 0.5 of 100 TFLOP/s in the forward and 0.4 in the backward for long
 * sequences, half of that for 1000 tokens, and 3/4 for 3000. So for 1000 tokens 1e9 FLOPs take 40
 * us in the forward and 50 us in the backward. */
START_TEST(flash_attentions_rate_depends_on_length_and_pass)
{
    struct gpu gpu = round_gpu();
    struct profile profile = round_profile();
    struct op forward = attention_op(PASS_FORWARD, 1000);
    struct op backward = attention_op(PASS_BACKWARD_INPUT, 1000);
    struct op longer = attention_op(PASS_FORWARD, 3000);
    ck_assert_double_eq_tol(op_s(&gpu, &profile, ATTENTION_FLASH2, &forward), 40e-6, 1e-12);
    ck_assert_double_eq_tol(op_s(&gpu, &profile, ATTENTION_FLASH2, &backward), 50e-6, 1e-12);
    ck_assert_double_eq_tol(op_s(&gpu, &profile, ATTENTION_FLASH2, &longer), 40e-6 * 2 / 3, 1e-12);
}
END_TEST

/* The time is 1e9 FLOPs divided by 0.5 x 100 TFLOP/s x 64/(64 + 64). */
START_TEST(short_heads_leave_part_of_a_tile_unused)
{
    struct gpu gpu = round_gpu();
    struct profile profile = round_profile();
    profile.batched_gemm_half_dim = 64;
    struct op scores = { .kind = OP_SCORES, .dtype = DTYPE_BF16, .m = 2048, .n = 2048, .k = 64 };
    struct op context = {
        .kind = OP_ATTENTION_VALUES, .dtype = DTYPE_BF16, .m = 2048, .n = 64, .k = 2048
    };
    scores.flops = context.flops = 1e9;
    ck_assert_double_eq_tol(op_s(&gpu, &profile, ATTENTION_UNFUSED, &scores), 40e-6, 1e-12);
    ck_assert_double_eq_tol(op_s(&gpu, &profile, ATTENTION_UNFUSED, &context), 40e-6, 1e-12);
}
END_TEST

/* Four products of 10 x 10 tiles run one after another: 4 x 32.768 us. */
START_TEST(groups_of_a_product_run_in_sequence)
{
    struct gpu gpu = round_gpu();
    struct profile profile = round_profile();
    struct op groups = { .kind = OP_GEMM,
                         .dtype = DTYPE_BF16,
                         .batch = 4,
                         .m = 1280,
                         .n = 1280,
                         .k = 500,
                         .flops = 4 * 2.0 * 1280 * 1280 * 500 };
    ck_assert_double_eq_tol(op_s(&gpu, &profile, ATTENTION_FLASH2, &groups), 4 * 32.768e-6, 1e-12);
}
END_TEST

/* The logarithm of the correction is divided by 1.05: a shape that was measured at half of the
 * formula's speed is predicted to take 2^(1/1.05) times as long. */
START_TEST(a_measured_shape_takes_nearly_its_measured_time)
{
    struct gpu gpu = round_gpu();
    struct profile profile = round_profile();
    double modelled_s = multiply_s(1280, 1280, 500);
    struct gemm_point half = { 1280, 1280, 500, 2.0 * 1280 * 1280 * 500 / (2 * modelled_s) };
    profile.gemm_points = &half;
    profile.num_gemm_points = 1;
    double corrected_s = gemm_s(&gpu, &profile, DTYPE_BF16, 1280, 1280, 500, 0);
    ck_assert_double_eq_tol(corrected_s / modelled_s, pow(2, 1 / 1.05), 1e-9);
}
END_TEST

START_TEST(a_shape_three_octaves_from_measured_ones_uses_the_formula)
{
    struct gpu gpu = round_gpu();
    struct profile profile = round_profile();
    struct gemm_point point = { 1280, 1280, 500, 1e12 };
    profile.gemm_points = &point;
    profile.num_gemm_points = 1;
    ck_assert_double_eq(gemm_s(&gpu, &profile, DTYPE_BF16, 1280, 1280, 4000, 0),
                        multiply_s(1280, 1280, 4000));
}
END_TEST

/* --- published numbers --------------------------------------------------------------------------
 */

/* The power limit is 500 W instead of 700 W. A seventh of the full power, 100 W, is static, which
 * leaves 400 of 600 W. So the speed is (2/3)^0.4 = 0.850. Memory traffic keeps its speed. */
START_TEST(a_lower_power_limit_slows_only_products_and_attention)
{
    struct gpu capped;
    struct profile profile;
    struct err err = { 0 };
    ck_assert_msg(gpu_load("h100-80g-sxm", &capped, &err), "%s", err.msg);
    ck_assert_msg(profile_load("h100-80g-sxm", &profile, &err), "%s", err.msg);
    ck_assert_double_eq(power_speed(&capped, &profile), 1);
    double full_s = gemm_s(&capped, &profile, DTYPE_BF16, 8192, 8192, 8192, 0) - profile.kernel_s;
    double traffic = traffic_s(&capped, &profile, 1e9, 1);
    capped.power_w = 500;
    double speed = power_speed(&capped, &profile);
    ck_assert_double_eq_tol(speed, 0.850, 1e-3);
    double capped_s = gemm_s(&capped, &profile, DTYPE_BF16, 8192, 8192, 8192, 0) - profile.kernel_s;
    ck_assert_double_eq_tol(capped_s, full_s / speed, 1e-9);
    ck_assert_double_eq(traffic_s(&capped, &profile, 1e9, 1), traffic);
    capped.power_w = 2 * profile.power_w; /* measured under a lower limit */
    ck_assert_double_eq(power_speed(&capped, &profile), 1);
    profile.power_w = 0;
    ck_assert_double_eq(power_speed(&capped, &profile), 1);
    profile_release(&profile);
}
END_TEST

/* By NVIDIA's whitepapers the peak is the number of tensor cores x FLOPs per cycle x clock: 528 x
 * 1024 x 1.83 GHz and 432 x 512 x 1.41 GHz, where a multiply-add counts as 2 FLOPs. It must equal
 * the datasheet's. */
START_TEST(the_peak_is_tensor_cores_times_flops_per_cycle_times_clock)
{
    struct gpu gpu;
    struct err err = { 0 };
    check_ok(gpu_load("h100-80g-sxm", &gpu, &err), &err);
    ck_assert_double_eq_tol(gpu.num_sms * 4 * 1024 * gpu.clock_hz, 989.43e12, 0.005e12);
    ck_assert_double_eq_tol(gpu.peak_flops_per_s[DTYPE_BF16] / 989.43e12, 1, 0.001);
    check_ok(gpu_load("a100-80g-sxm", &gpu, &err), &err);
    ck_assert_double_eq_tol(gpu.num_sms * 4 * 512 * gpu.clock_hz, 311.87e12, 0.005e12);
    ck_assert_double_eq_tol(gpu.peak_flops_per_s[DTYPE_BF16] / 311.87e12, 1, 0.001);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("compute");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, without_a_profile_a_gpu_reaches_its_datasheet_peaks);
    tcase_add_test(tc, a_full_wave_of_tiles_takes_one_tiles_time);
    tcase_add_test(tc, heads_not_aligned_to_16_bytes_have_the_unaligned_efficiency);
    tcase_add_test(tc, rows_aligned_to_4_bytes_are_slowed_by_the_root_of_the_factor_for_2_bytes);
    tcase_add_test(tc, groups_of_a_product_run_in_sequence);
    tcase_add_test(tc, a_tile_more_than_a_wave_takes_another_wave);
    tcase_add_test(tc, half_the_rate_is_reached_at_half_k);
    tcase_add_test(tc, part_of_a_products_accumulator_traffic_is_exposed);
    tcase_add_test(tc, a_long_inner_dimension_is_split_over_idle_sms);
    tcase_add_test(tc, a_thin_product_takes_the_time_of_its_memory_traffic);
    tcase_add_test(tc, memory_bound_ops_take_traffic_over_bandwidth_plus_kernel_starts);
    tcase_add_test(tc, flash_attentions_rate_depends_on_length_and_pass);
    tcase_add_test(tc, short_heads_leave_part_of_a_tile_unused);
    tcase_add_test(tc, a_measured_shape_takes_nearly_its_measured_time);
    tcase_add_test(tc, a_shape_three_octaves_from_measured_ones_uses_the_formula);
    tcase_add_test(tc, a_lower_power_limit_slows_only_products_and_attention);
    tcase_add_test(tc, the_peak_is_tensor_cores_times_flops_per_cycle_times_clock);
    Suite *s = suite_create("sim/cost/compute");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
