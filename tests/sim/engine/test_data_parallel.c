#include "tests/draw.h"
#include "tests/testing.h"

#include "sim/engine/data_parallel.h"

#include <math.h>
#include <stdlib.h>

/* The contention of these tests: while compute overlaps a transfer, compute takes 1.25 times as
 * long and the transfer twice as long. */
static const struct profile slow = { .overlap_compute_slowdown = 1.25, .overlap_comm_slowdown = 2 };

/* --- transfers beside compute ----------------------------------------------------------------- */

/* Beside 10 s of compute, 3 s of transfer take 6 s. In these 6 s compute loses 6 (1 - 1/1.25) = 1.2
 * s. */
START_TEST(a_short_transfer_slows_compute_while_it_lasts)
{
    ck_assert_double_eq_tol(overlapped_s(&slow, 10, 3), 11.2, 1e-12);
}
END_TEST

/* With the transfer beside it, 10 s of compute take 12.5 s. In that time 12.5 / 2 s of the 8 s of
 * transfer are done, so 1.75 s remain. */
START_TEST(a_long_transfer_continues_after_compute)
{
    ck_assert_double_eq_tol(overlapped_s(&slow, 10, 8), 14.25, 1e-12);
}
END_TEST

START_TEST(no_transfer_adds_no_time)
{
    ck_assert_double_eq(overlapped_s(&slow, 10, 0), 10);
    ck_assert_double_eq(overlapped_s(&slow, 0, 3), 3);
}
END_TEST

/* Overlapping takes at least as long as the longer of the two alone, and at most as long as both
 * one after the other, slowed down; more work never takes less time. */
START_TEST(overlapped_time_lies_between_the_longer_and_both_slowed_down)
{
    srand(3);
    for (int i = 0; i < 10000; i++) {
        struct profile profile = { .overlap_compute_slowdown = random_between(1, 2),
                                   .overlap_comm_slowdown = random_between(1, 2) };
        double x = profile.overlap_compute_slowdown, y = profile.overlap_comm_slowdown;
        double compute_s = random_between(0, 10), comm_s = random_between(0, 10);
        double time_s = overlapped_s(&profile, compute_s, comm_s);
        ck_assert_double_ge(time_s, fmax(compute_s, comm_s) * (1 - 1e-12));
        ck_assert_double_le(time_s, fmax(x, y) * (compute_s + comm_s));
        ck_assert_double_ge(overlapped_s(&profile, compute_s, comm_s + 0.1), time_s - 1e-9);
        ck_assert_double_ge(overlapped_s(&profile, compute_s + 0.1, comm_s), time_s - 1e-9);
    }
}
END_TEST

/* --- transfers in buckets -----------------------------------------------------------------------
 */

START_TEST(one_bucket_is_fully_exposed)
{
    ck_assert_double_eq_tol(exposed_s(&slow, 3, 10, 1), 3, 1e-12);
}
END_TEST

/* A transfer of 3 s has 4 buckets. Three buckets overlap compute: they take 4.5 s and slow compute
 * by a fifth of that time. The last bucket follows and takes 0.75 s. */
START_TEST(only_the_last_bucket_is_exposed_after_long_compute)
{
    ck_assert_double_eq_tol(exposed_s(&slow, 3, 10, 4), 0.75 + 0.9, 1e-12);
}
END_TEST

START_TEST(many_buckets_approach_the_two_block_formula)
{
    for (double comm_s = 0; comm_s < 20; comm_s += 0.5)
        ck_assert_double_eq_tol(10 + exposed_s(&slow, comm_s, 10, 1e12),
                                overlapped_s(&slow, 10, comm_s), 1e-9);
}
END_TEST

START_TEST(more_buckets_or_a_longer_window_never_expose_more)
{
    srand(5);
    for (int i = 0; i < 10000; i++) {
        struct profile profile = { .overlap_compute_slowdown = random_between(1, 1.3),
                                   .overlap_comm_slowdown = random_between(1, 2) };
        double comm_s = random_between(0, 10), window_s = random_between(0, 10);
        double pieces = 1 + rand() % 20;
        double time_s = exposed_s(&profile, comm_s, window_s, pieces);
        ck_assert_double_le(exposed_s(&profile, comm_s, window_s, pieces + 1), time_s + 1e-12);
        ck_assert_double_le(exposed_s(&profile, comm_s, window_s + 1, pieces), time_s + 1e-12);
        ck_assert_double_ge(exposed_s(&profile, comm_s + 1, window_s, pieces), time_s - 1e-12);
    }
}
END_TEST

static double lane_exposed_s(const struct profile *profile, const double (*buckets)[2], int count)
{
    struct bucket_lane lane = { .profile = profile };
    for (int i = 0; i < count; i++)
        bucket_lane_add(&lane, buckets[i][0], buckets[i][1]);
    return bucket_lane_exposed_s(&lane);
}

/* Compute takes 4, 2 and 2 s, and the buckets take 1, 3 and 2 s. Without slowdown the buckets are
 * sent from 4 to 5, 6 to 9 and 9 to 11 s, so the last ends 3 s after compute. */
START_TEST(a_bucket_waits_for_its_gradients_and_the_previous_bucket)
{
    static const struct profile even = { .overlap_compute_slowdown = 1,
                                         .overlap_comm_slowdown = 1 };
    static const double buckets[][2] = { { 4, 1 }, { 2, 3 }, { 2, 2 } };
    ck_assert_double_eq_tol(lane_exposed_s(&even, buckets, 3), 3, 1e-12);
    /* With contention. Compute takes 8 s, in which 5 s of transfer can be done. In units of the
     * transfer's own time, buckets are ready at 2.5, 3.75 and 5 s, and their transfers end
     * at 3.5, 6.75 and 8.75 s. So 3.75 s are exposed, and the other 2.25 s slow 4.5 s of compute by
     * a fifth */
    ck_assert_double_eq_tol(lane_exposed_s(&slow, buckets, 3), 3.75 + 0.9, 1e-12);
}
END_TEST

START_TEST(equal_buckets_on_a_lane_equal_the_formula)
{
    srand(6);
    for (int i = 0; i < 1000; i++) {
        struct profile profile = { .overlap_compute_slowdown = random_between(1, 1.3),
                                   .overlap_comm_slowdown = random_between(1, 2) };
        double comm_s = random_between(0, 10), window_s = random_between(0, 10);
        int count = 1 + rand() % 20;
        double buckets[20][2];
        for (int j = 0; j < count; j++) {
            buckets[j][0] = window_s / count;
            buckets[j][1] = comm_s / count;
        }
        ck_assert_double_eq_tol(lane_exposed_s(&profile, buckets, count),
                                exposed_s(&profile, comm_s, window_s, count), 1e-9);
    }
}
END_TEST

/* --- gradients, parameters, optimizer -----------------------------------------------------------
 */

#define WIRES(ranks)                                                                             \
    {                                                                                            \
        .num_ranks = (ranks), .num_nodes = 1, .arch = ARCH_AMPERE, .intra = LINK_NVLINK,         \
        .ll128 = true, .num_channels = 24, .intra_bytes_per_s = 10e9, .inter_bytes_per_s = 10e9, \
        .bandwidth_factor = 1, .latency_factor = 1,                                              \
    }
static const struct comm_group wires = WIRES(8);
static const struct data_groups all_shard = { .shard = WIRES(8), .replicas = { .num_ranks = 1 } };
static const struct data_groups four_shard = { .shard = WIRES(4), .replicas = WIRES(2) };

/* A million parameters have fp32 gradients and bf16 weights. */
START_TEST(sharded_gradients_are_scattered_and_weights_gathered)
{
    struct plan plan = plan_default();
    plan.zero = 1;
    struct data_comm comm = data_comm(&(struct stack){ 0 }, &plan, &all_shard, 1e6);
    ck_assert_double_eq(comm.reduce_s, collective_s(&wires, COLLECTIVE_REDUCE_SCATTER, 4e6));
    ck_assert_double_eq(comm.gather_s, collective_s(&wires, COLLECTIVE_ALL_GATHER, 2e6));
}
END_TEST

START_TEST(whole_gradients_are_all_reduced)
{
    struct plan plan = plan_default();
    plan.reduce_dtype = DTYPE_BF16;
    struct data_comm comm = data_comm(&(struct stack){ 0 }, &plan, &all_shard, 1e6);
    ck_assert_double_eq(comm.reduce_s, collective_s(&wires, COLLECTIVE_ALL_REDUCE, 2e6));
    ck_assert_double_eq(comm.gather_s, 0);
}
END_TEST

/* A shard is a quarter of the gradients. It is all-reduced with the only other rank that has the
 * same shard. */
START_TEST(replicated_shards_are_all_reduced_with_their_copies)
{
    struct plan plan = plan_default();
    plan.zero = 3;
    struct data_comm comm = data_comm(&(struct stack){ 0 }, &plan, &four_shard, 1e6);
    double scatter_s = collective_s(&four_shard.shard, COLLECTIVE_REDUCE_SCATTER, 4e6);
    double sum_s = collective_s(&four_shard.replicas, COLLECTIVE_ALL_REDUCE, 1e6);
    ck_assert_double_eq(comm.reduce_s, scatter_s + sum_s);
    ck_assert_double_eq(comm.gather_s, collective_s(&four_shard.shard, COLLECTIVE_ALL_GATHER, 2e6));
}
END_TEST

/* A stack that keeps gradients in bf16 sums them in bf16, unless the layout names another type. */
START_TEST(gradients_kept_in_bf16_are_summed_in_bf16)
{
    struct stack stack = { .memory.main_gradients = MAIN_GRADIENTS_OWN };
    struct plan plan = plan_default();
    ck_assert_int_eq(plan.precision, PRECISION_BF16);
    ck_assert_double_eq(reduced_gradient_bytes(&stack, &plan), 2);
    ck_assert_double_eq(data_comm(&stack, &plan, &all_shard, 1e6).reduce_s,
                        collective_s(&wires, COLLECTIVE_ALL_REDUCE, 2e6));
    ck_assert_double_eq(reduced_gradient_bytes(&(struct stack){ 0 }, &plan), 4);
    plan.precision = PRECISION_FP32;
    ck_assert_double_eq(reduced_gradient_bytes(&stack, &plan), 4);
    plan.precision = PRECISION_BF16;
    plan.gradient_dtype = DTYPE_BF16; /* the layout requires sums in fp32 */
    ck_assert_double_eq(reduced_gradient_bytes(&stack, &plan), 4);
}
END_TEST

/* Three tensors of one million 16-bit weights have three owners; a hundred tensors are owned by all
 * eight ranks. */
START_TEST(owners_of_whole_tensors_broadcast_the_updated_weights)
{
    struct data_comm few = whole_tensors_comm(&all_shard, 4e6, 6e6, 3);
    ck_assert_double_eq(few.reduce_s, collective_s(&wires, COLLECTIVE_ALL_REDUCE, 4e6));
    ck_assert_double_eq(few.gather_s, 3 * collective_s(&wires, COLLECTIVE_BROADCAST, 2e6));
    struct data_comm many = whole_tensors_comm(&all_shard, 4e6, 6e6, 100);
    ck_assert_double_eq(many.gather_s, 8 * collective_s(&wires, COLLECTIVE_BROADCAST, 75e4));
    struct data_comm twice = whole_tensors_comm(&four_shard, 4e6, 6e6, 100);
    double sum_s = collective_s(&four_shard.replicas, COLLECTIVE_ALL_REDUCE, 1e6) +
                   collective_s(&four_shard.shard, COLLECTIVE_REDUCE_SCATTER, 4e6) +
                   collective_s(&four_shard.shard, COLLECTIVE_ALL_GATHER, 4e6);
    ck_assert_double_eq_tol(twice.reduce_s, sum_s, 1e-15);
}
END_TEST

START_TEST(weights_are_gathered_once_per_time_they_are_freed)
{
    struct plan plan = plan_default();
    struct stack stack = { .shards.reshard = true };
    ck_assert_double_eq(weight_gathers(&stack, &plan, 8), 1);
    plan.zero = 3;
    ck_assert_double_eq(weight_gathers(&stack, &plan, 8), 16);
    stack.shards.reshard = false;
    ck_assert_double_eq(weight_gathers(&stack, &plan, 8), 8);
    stack.shards.accumulate = ACCUMULATE_NO_SYNC;
    ck_assert_double_eq(weight_gathers(&stack, &plan, 8), 1);
}
END_TEST

/* After its gather a bf16 parameter is copied, i.e. read and written (4 bytes). A gradient of 2
 * bytes is widened to 4 (6 bytes of traffic). There is no copy if no weight is gathered or if all
 * weights are one flat tensor. */
START_TEST(parameters_that_are_sharded_one_by_one_are_copied)
{
    struct system system = { .gpu = { .memory_bytes_per_s = 1e12 },
                             .profile = { .memory_efficiency = 1 },
                             .stack = { .shards.copies = true } };
    struct plan plan = plan_default();
    plan.dp = 8;
    plan.zero = 3;
    struct data_comm copies = shard_copies(&system, &plan, 1e9);
    ck_assert_double_eq_tol(copies.gather_s, 4e-3, 1e-12);
    ck_assert_double_eq_tol(copies.reduce_s, 6e-3, 1e-12);
    plan.zero = 2;
    ck_assert_double_eq(shard_copies(&system, &plan, 1e9).gather_s, 0);
    plan.zero = 3;
    system.stack.shards.copies = false;
    ck_assert_double_eq(shard_copies(&system, &plan, 1e9).reduce_s, 0);
}
END_TEST

/* The update of 1e9 parameters. Per parameter it reads the gradient (4 bytes), reads and writes the
 * state (24), writes the weight (2) and reads the gradient again for the norm (4): 34 bytes at 1
 * TB/s, and four kernels of 1 ms. If sharded over 8 ranks, the bytes are an eighth. */
START_TEST(the_update_reads_and_writes_the_state_once)
{
    struct system system = { .gpu = { .memory_bytes_per_s = 1e12 },
                             .profile = { .memory_efficiency = 1, .kernel_s = 1e-3 },
                             .stack = { .optimizer_passes = 1 } };
    struct model model = { .hidden = 1024 };
    struct plan plan = plan_default();
    plan.dp = 8;
    ck_assert_double_eq_tol(optimizer_s(&system, &model, &plan, (struct stage_weights){ 1e9, 0 }),
                            34e-3 + 4e-3, 1e-12);
    plan.zero = 1;
    ck_assert_double_eq_tol(optimizer_s(&system, &model, &plan, (struct stage_weights){ 1e9, 0 }),
                            34e-3 / 8 + 4e-3, 1e-12);
    plan.shard = 2;
    ck_assert_double_eq_tol(optimizer_s(&system, &model, &plan, (struct stage_weights){ 1e9, 0 }),
                            34e-3 / 2 + 4e-3, 1e-12);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("data_parallel");
    tcase_add_test(tc, a_short_transfer_slows_compute_while_it_lasts);
    tcase_add_test(tc, a_long_transfer_continues_after_compute);
    tcase_add_test(tc, no_transfer_adds_no_time);
    tcase_add_test(tc, overlapped_time_lies_between_the_longer_and_both_slowed_down);
    tcase_add_test(tc, one_bucket_is_fully_exposed);
    tcase_add_test(tc, only_the_last_bucket_is_exposed_after_long_compute);
    tcase_add_test(tc, many_buckets_approach_the_two_block_formula);
    tcase_add_test(tc, more_buckets_or_a_longer_window_never_expose_more);
    tcase_add_test(tc, a_bucket_waits_for_its_gradients_and_the_previous_bucket);
    tcase_add_test(tc, equal_buckets_on_a_lane_equal_the_formula);
    tcase_add_test(tc, sharded_gradients_are_scattered_and_weights_gathered);
    tcase_add_test(tc, whole_gradients_are_all_reduced);
    tcase_add_test(tc, replicated_shards_are_all_reduced_with_their_copies);
    tcase_add_test(tc, gradients_kept_in_bf16_are_summed_in_bf16);
    tcase_add_test(tc, owners_of_whole_tensors_broadcast_the_updated_weights);
    tcase_add_test(tc, weights_are_gathered_once_per_time_they_are_freed);
    tcase_add_test(tc, parameters_that_are_sharded_one_by_one_are_copied);
    tcase_add_test(tc, the_update_reads_and_writes_the_state_once);
    Suite *s = suite_create("sim/engine/data_parallel");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
