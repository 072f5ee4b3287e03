#include "sim/collective/collective.h"

#include "tests/sim/collective/nccl_groups.h"
#include "tests/testing.h"

#include <math.h>

static double time_us(const char *algo, int group, enum collective collective,
                      enum protocol protocol, double bytes)
{
    return nccl_time_s(collective_algo_find(algo), &nccl_groups[group], collective, protocol,
                       bytes) /
           SECONDS_PER_US;
}

/* Hand calculations. A collective takes its latency plus its bytes / its bandwidth. A ring of n
 * ranks has 2 (n - 1) steps in an all-reduce, in which a rank sends 2 (n - 1) / n of the bytes, and
 * half as many steps and bytes in an all-gather or a reduce-scatter. */

/* The latency is 8.4 us + 14 steps of 3.4 us, the bandwidth 24 channels x 15 GB/s x 8/14. */
START_TEST(ring_simple_all_reduce_of_1_gib_on_8_h100_takes_5276_us)
{
    double latency_s, bytes_per_s;
    collective_algo_find("ring")->cost(&nccl_groups[H100_NODE], COLLECTIVE_ALL_REDUCE,
                                       PROTOCOL_SIMPLE, GIB, &latency_s, &bytes_per_s);
    ck_assert_double_eq_tol(latency_s / SECONDS_PER_US, 56.0, 1e-9);
    ck_assert_double_eq_tol(bytes_per_s / 1e9, 205.714, 0.001);
    ck_assert_double_eq_tol(time_us("ring", H100_NODE, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, GIB),
                            5275.6, 0.05);
}
END_TEST

/* The latency is multiplied by 1.4 from the size on at which each of 8 channels carries 64 bytes
 * for each of 16 ranks. */
START_TEST(a_ring_over_nodes_has_its_plateau_from_64_bytes_per_channel_and_rank_on)
{
    const struct comm_group *group = &nccl_groups[H100_2_NODES];
    const struct collective_algo *ring = collective_algo_find("ring");
    double below_s, on_s, unused;
    ring->cost(group, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, 64 * 8 * 16 - 1, &below_s, &unused);
    ring->cost(group, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, 64 * 8 * 16, &on_s, &unused);
    ck_assert_double_eq_tol(on_s / below_s, 1.4, 1e-12);
    ring->cost(group, COLLECTIVE_ALL_REDUCE, PROTOCOL_LL, 64 * 8 * 16 - 1, &below_s, &unused);
    ring->cost(group, COLLECTIVE_ALL_REDUCE, PROTOCOL_LL, 64 * 8 * 16, &on_s, &unused);
    ck_assert_double_eq(on_s, below_s);
}
END_TEST

/* The latency is 25 us, the bandwidth 8 channels x min(40 x 0.85 x 7/8 x 2 = 59.5, 60) GB/s x 8/14
 * = 272 GB/s. */
START_TEST(nvls_all_reduce_of_1_gib_on_8_h100_takes_3973_us)
{
    ck_assert_double_eq_tol(time_us("nvls", H100_NODE, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, GIB),
                            3972.6, 0.05);
}
END_TEST

/* The bus bandwidth in GB/s that was measured with 8 GiB on some GPUs of a node of 8 H200
 * (ml-engineering, network/README). NCCL's model predicts 475 for all 8 GPUs. With four GPUs, NCCL
 * used a ring. */
START_TEST(groups_within_an_h200_node_reduce_as_fast_as_measured)
{
    static const struct {
        int num_ranks;
        double bus_gb_per_s;
    } measured[] = { { 4, 363.3 }, { 5, 414.2 }, { 6, 435.6 }, { 7, 460.0 }, { 8, 473.1 } };
    for (size_t i = 0; i < LENGTH(measured); i++) {
        struct comm_group group = nccl_groups[H100_NODE];
        double n = group.num_ranks = measured[i].num_ranks;
        double time_s = collective_s(&group, COLLECTIVE_ALL_REDUCE, 8 * GIB);
        ck_assert_double_eq_tol(2 * (n - 1) / n * 8 * GIB / time_s / 1e9 / measured[i].bus_gb_per_s,
                                1, 0.02);
    }
}
END_TEST

/* The latency is 6.6 + 14 x 0.6 us, the bandwidth min(141, 0.5 x 360) x 8/14 GB/s. */
START_TEST(ring_ll_all_reduce_of_64_kib_on_8_h100_takes_16_us)
{
    ck_assert_double_eq_tol(
        time_us("ring", H100_NODE, COLLECTIVE_ALL_REDUCE, PROTOCOL_LL, 64 * KIB), 15.81, 0.005);
}
END_TEST

/* The latency is 8.4 + 7 x 3.4 us, the bandwidth 360 x 8/7 GB/s. */
START_TEST(ring_simple_reduce_scatter_of_256_mib_on_8_h100_takes_685_us)
{
    ck_assert_double_eq_tol(
        time_us("ring", H100_NODE, COLLECTIVE_REDUCE_SCATTER, PROTOCOL_SIMPLE, 256 * MIB), 684.65,
        0.005);
}
END_TEST

/* The ring has a latency of (8.4 + 224 x 3.4 + 30 x 14 us) x 1.4 and a bandwidth of 384 x 128/254
 * GB/s. The tree has a latency of 8.4 + 2 x (7 x 4 + 4 x 14) us and a bandwidth of 8 x min(0.92 x
 * 48, 36) / 2 GB/s. */
START_TEST(over_16_h100_nodes_a_ring_is_faster_than_a_tree_for_1_gib)
{
    ck_assert_double_eq_tol(
        time_us("ring", H100_16_NODES, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, GIB), 7214.7, 0.05);
    ck_assert_double_eq_tol(
        time_us("tree", H100_16_NODES, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, GIB), 7632.9, 0.05);
}
END_TEST

/* The ring has 2046 steps, of which 254 cross the network; the tree has 2 x (7 + 7) steps. The
 * hosts have Intel CPUs. */
START_TEST(over_128_a100_nodes_a_tree_is_faster_than_a_ring_for_1_gib)
{
    struct comm_group group = nccl_groups[A100_128_NODES];
    group.amd_cpu = false;
    double ring_s = nccl_time_s(collective_algo_find("ring"), &group, COLLECTIVE_ALL_REDUCE,
                                PROTOCOL_SIMPLE, GIB);
    double tree_s = nccl_time_s(collective_algo_find("tree"), &group, COLLECTIVE_ALL_REDUCE,
                                PROTOCOL_SIMPLE, GIB);
    ck_assert_double_eq_tol(ring_s / SECONDS_PER_US, 24694, 0.5);
    ck_assert_double_eq_tol(tree_s / SECONDS_PER_US, 15341, 0.5);
}
END_TEST

/* The latency is 8.4 + 7 x 14 us, the bandwidth 2 x 24 x 8/7 GB/s. */
START_TEST(ring_all_gather_of_256_mib_over_8_lone_h100_takes_5000_us)
{
    ck_assert_double_eq_tol(
        time_us("ring", H100_8_ALONE, COLLECTIVE_ALL_GATHER, PROTOCOL_SIMPLE, 256 * MIB), 4999.75,
        0.005);
}
END_TEST

static void ck_cost(const char *algo, int group, enum collective collective, double want_us,
                    double want_gb_per_s)
{
    double latency_s, bytes_per_s;
    collective_algo_find(algo)->cost(&nccl_groups[group], collective, PROTOCOL_SIMPLE, GIB,
                                     &latency_s, &bytes_per_s);
    ck_assert_double_eq_tol(latency_s / SECONDS_PER_US, want_us, 1e-9);
    ck_assert_double_eq_tol(bytes_per_s / 1e9, want_gb_per_s, 1e-9);
}

/* The latency is 2 x (3.7 + 7 x 0.4) + 31 us. With one NIC per rank an all-reduce has a bandwidth
 * of 0.85 x 384 / 2 GB/s, and a gather one of 8 x min(48, 0.9 x 48) GB/s. With two ranks per NIC (4
 * NICs of 24 GB/s) an all-reduce has 96 x 2/3 / 2 GB/s. With one rank per node there is no hop
 * inside the node; the latency is 14 us as in a tree, and the bandwidth 2/(1/2 + 1) x 0.85 x 48 / 2
 * GB/s. */
START_TEST(collnet_direct_crosses_the_network_once)
{
    ck_cost("collnet_direct", SHARP_16_NODES, COLLECTIVE_ALL_REDUCE, 44.0, 163.2);
    ck_cost("collnet_direct", SHARP_2_NODES, COLLECTIVE_ALL_REDUCE, 44.0, 163.2);
    ck_cost("collnet_direct", SHARP_16_NODES, COLLECTIVE_ALL_GATHER, 44.0, 345.6);
    ck_cost("collnet_direct", SHARP_A100, COLLECTIVE_ALL_REDUCE, 44.0, 32.0);
    ck_cost("collnet_direct", SHARP_ALONE, COLLECTIVE_ALL_REDUCE, 14.0, 27.2);
}
END_TEST

/* The latency is 2 x 7 x 2.8 + 30 us, the bandwidth 384 / 2 GB/s. With one rank per node they are
 * 14 us and 48 / 2 GB/s. */
START_TEST(collnet_chain_passes_through_a_nodes_ranks_and_back)
{
    ck_cost("collnet_chain", SHARP_16_NODES, COLLECTIVE_ALL_REDUCE, 69.2, 192.0);
    ck_cost("collnet_chain", SHARP_ALONE, COLLECTIVE_ALL_REDUCE, 14.0, 24.0);
}
END_TEST

/* The GPUs with the same index in all nodes form a rail. A hop between nodes that also changes the
 * rail takes 3.4 us more, over NVLink. There are 7 such hops in a gather by a ring, 14 in an
 * all-reduce by a ring (whose latency is multiplied by 1.4), 2 x 3 in a tree, 3/3.5 in PAT (NCCL's
 * parallel trees) and 1 in a send. */
START_TEST(hops_between_rails_add_a_hop_over_nvlink)
{
    static const struct {
        const char *algo;
        enum collective collective;
        double more_us;
    } hops[] = {
        { "ring", COLLECTIVE_ALL_GATHER, 7 * 3.4 },
        { "ring", COLLECTIVE_ALL_REDUCE, 1.4 * 14 * 3.4 },
        { "ring", COLLECTIVE_BROADCAST, 8 * 3.4 },
        { "tree", COLLECTIVE_ALL_REDUCE, 6 * 3.4 },
        { "pat", COLLECTIVE_ALL_GATHER, 3 / 3.5 * 3.4 },
    };
    for (size_t i = 0; i < LENGTH(hops); i++) {
        double on_us =
            time_us(hops[i].algo, H100_8_ALONE, hops[i].collective, PROTOCOL_SIMPLE, MIB);
        double off_us = time_us(hops[i].algo, OFF_RAILS, hops[i].collective, PROTOCOL_SIMPLE, MIB);
        ck_assert_double_eq_tol(off_us - on_us, hops[i].more_us, 1e-6);
    }
    double send_s = point_to_point_s(&nccl_groups[OFF_RAILS], MIB);
    ck_assert_double_eq_tol(send_s - point_to_point_s(&nccl_groups[H100_8_ALONE], MIB), 3.4e-6,
                            1e-12);
}
END_TEST

/* The latency is 25 + 18 us, the bandwidth 8 x min(40 x 0.85 x 7/8 x 2, 48) x 128/254 GB/s. A
 * gather has a bandwidth of 8 x 40 x 0.85 x 7/8 x 7/8 GB/s. */
START_TEST(nvls_over_nodes_adds_one_hop_and_is_as_fast_as_the_nics)
{
    ck_cost("nvls", SHARP_16_NODES, COLLECTIVE_ALL_REDUCE, 43.0, 384 * 128 / 254.0);
    ck_cost("nvls", SHARP_16_NODES, COLLECTIVE_ALL_GATHER, 43.0, 208.25);
}
END_TEST

/* For 1 MiB on 16 nodes latency decides. The latency of NVLS is 25 + 18 us; a tree's is 2 x (7 x 4
 * + 4 x 14) us, and a ring's is larger. */
START_TEST(with_sharp_nvls_is_chosen_for_1_mib_over_16_nodes)
{
    ck_assert_str_eq(
        collective_choose(&nccl_groups[SHARP_16_NODES], COLLECTIVE_ALL_REDUCE, MIB).algo->name,
        "nvls");
    ck_assert_double_lt(
        collective_choose(&nccl_groups[SHARP_16_NODES], COLLECTIVE_ALL_REDUCE, MIB).time_s,
        collective_choose(&nccl_groups[H100_16_NODES], COLLECTIVE_ALL_REDUCE, MIB).time_s);
}
END_TEST

/* On 2 nodes of Azure's NDv5 with the SHARP plugin, nccl-tests reached 466.3 GB/s for 16 GiB
 * (published by Azure; NCCL used NVLSTree). */
START_TEST(nvls_tree_bus_bandwidth_is_within_2_percent_of_that_measured_on_2_h100_nodes)
{
    double us =
        time_us("nvls_tree", SHARP_2_NODES, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, 16 * GIB);
    double bus_bytes_per_s = 16 * GIB / (us * SECONDS_PER_US) * 1.875;
    ck_assert_double_eq_tol(bus_bytes_per_s / 466.3e9, 1, 0.02);
}
END_TEST

/* In a node the latency is 8.4 + 3.4 us and the bandwidth 360 GB/s. Over 16 nodes they are 8.4 +
 * 128 x 14 us and 384 GB/s. */
START_TEST(broadcast_latency_is_one_step_in_a_node_and_one_per_rank_between_nodes)
{
    ck_assert_double_eq_tol(
        time_us("ring", H100_NODE, COLLECTIVE_BROADCAST, PROTOCOL_SIMPLE, 360e6), 1011.8, 1e-6);
    ck_assert_double_eq_tol(
        time_us("ring", H100_16_NODES, COLLECTIVE_BROADCAST, PROTOCOL_SIMPLE, 384e6), 2800.4, 1e-6);
}
END_TEST

/* Seven ranks on three nodes are divided into three, two and two. The latency is 8.4 + 2 x (2 x 4 +
 * 1 x 14) us. */
START_TEST(a_tree_waits_for_the_fullest_node)
{
    double latency_s, bytes_per_s;
    collective_algo_find("tree")->cost(&nccl_groups[UNEVEN], COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE,
                                       MIB, &latency_s, &bytes_per_s);
    ck_assert_double_eq_tol(latency_s / SECONDS_PER_US, 52.4, 1e-9);
}
END_TEST

/* A send takes 5 us plus its bytes at 360 GB/s in a node, and 10 us plus its bytes at 2 x 24 GB/s
 * between nodes. */
START_TEST(a_send_uses_all_channels_of_the_link_it_crosses)
{
    ck_assert_double_eq_tol(point_to_point_s(&nccl_groups[H100_NODE], 360e6), 1005e-6, 1e-15);
    ck_assert_double_eq_tol(point_to_point_s(&nccl_groups[H100_8_ALONE], 48e6), 1010e-6, 1e-15);
}
END_TEST

START_TEST(calibration_applies_to_a_send)
{
    struct comm_group group = nccl_groups[H100_NODE];
    group.latency_factor = 2;
    group.bandwidth_factor = 0.8;
    ck_assert_double_eq_tol(point_to_point_s(&group, 360e6), 2 * 5e-6 + 1e-3 / 0.8, 1e-15);
}
END_TEST

/* In a node an all-to-all takes 5 us plus 7/8 of 360 MB at 360 GB/s. With one rank per node it
 * takes 10 us plus 7/8 of 80 MB at 0.8 of a NIC's 50 GB/s. Over 16 nodes of 8 ranks, each rank
 * sends 15/16 of its data over an eighth of the node's 8 NICs. */
START_TEST(an_all_to_all_sends_all_but_a_ranks_own_part)
{
    ck_assert_double_eq_tol(all_to_all_s(&nccl_groups[H100_NODE], 360e6), 5e-6 + 875e-6, 1e-15);
    ck_assert_double_eq_tol(all_to_all_s(&nccl_groups[H100_8_ALONE], 80e6), 10e-6 + 1750e-6, 1e-15);
    ck_assert_double_eq_tol(all_to_all_s(&nccl_groups[H100_16_NODES], 640e6), 10e-6 + 15e-3, 1e-15);
}
END_TEST

START_TEST(calibration_applies_to_an_all_to_all)
{
    struct comm_group group = nccl_groups[H100_NODE];
    group.latency_factor = 2;
    group.bandwidth_factor = 0.8;
    ck_assert_double_eq_tol(all_to_all_s(&group, 360e6), 2 * 5e-6 + 875e-6 / 0.8, 1e-15);
}
END_TEST

/* Published numbers. */

/* On 8 H200, nccl-tests reached 473.1 GB/s for 8 GiB (ml-engineering, network/README). Bus
 * bandwidth is the message's rate times 2 x 7/8. */
START_TEST(nvls_bus_bandwidth_is_within_1_percent_of_that_measured_on_8_h200)
{
    double us = time_us("nvls", H100_NODE, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, 8 * GIB);
    double bus_bytes_per_s = 8 * GIB / (us * SECONDS_PER_US) * 1.75;
    ck_assert_double_eq_tol(bus_bytes_per_s / 1e9, 475.6, 0.05);
    ck_assert_double_eq_tol(bus_bytes_per_s / 473.1e9, 1, 0.01);
}
END_TEST

/* According to the same source, NCCL's tuner chose RING/LL for 1 MiB and NVLS/SIMPLE for 2 MiB. */
START_TEST(on_8_h100_the_choice_turns_from_ring_ll_to_nvls_between_1_and_2_mib)
{
    struct collective_choice small =
        collective_choose(&nccl_groups[H100_NODE], COLLECTIVE_ALL_REDUCE, MIB);
    ck_assert_str_eq(small.algo->name, "ring");
    ck_assert_int_eq(small.protocol, PROTOCOL_LL);
    ck_assert_double_eq_tol(small.time_s / SECONDS_PER_US, 28.0, 0.05);

    struct collective_choice large =
        collective_choose(&nccl_groups[H100_NODE], COLLECTIVE_ALL_REDUCE, 2 * MIB);
    ck_assert_str_eq(large.algo->name, "nvls");
    ck_assert_int_eq(large.protocol, PROTOCOL_SIMPLE);
    ck_assert_double_eq_tol(large.time_s / SECONDS_PER_US, 32.7, 0.05);
}
END_TEST

static const struct row {
    int group;
    enum collective collective;
    const char *algo;
    enum protocol protocol;
    double bytes;
    double time_s;
} rows[] = {
#include "tests/fixtures/nccl_times.inc"
};

START_TEST(times_agree_with_a_separate_port_of_nccls_model)
{
    for (size_t i = 0; i < LENGTH(rows); i++) {
        const struct row *row = &rows[i];
        const struct collective_algo *algo = collective_algo_find(row->algo);
        const struct comm_group *group = &nccl_groups[row->group];
        double got_s = nccl_time_s(algo, group, row->collective, row->protocol, row->bytes);
        ck_assert_msg(fabs(got_s / row->time_s - 1) < 1e-6,
                      "row %zu: %s takes %g bytes in %g s, not in %g s", i, row->algo, row->bytes,
                      got_s, row->time_s);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *numbers = tcase_create("numbers");
    tcase_add_test(numbers, ring_simple_all_reduce_of_1_gib_on_8_h100_takes_5276_us);
    tcase_add_test(numbers,
                   a_ring_over_nodes_has_its_plateau_from_64_bytes_per_channel_and_rank_on);
    tcase_add_test(numbers, nvls_all_reduce_of_1_gib_on_8_h100_takes_3973_us);
    tcase_add_test(numbers, groups_within_an_h200_node_reduce_as_fast_as_measured);
    tcase_add_test(numbers, ring_ll_all_reduce_of_64_kib_on_8_h100_takes_16_us);
    tcase_add_test(numbers, ring_simple_reduce_scatter_of_256_mib_on_8_h100_takes_685_us);
    tcase_add_test(numbers, over_16_h100_nodes_a_ring_is_faster_than_a_tree_for_1_gib);
    tcase_add_test(numbers, over_128_a100_nodes_a_tree_is_faster_than_a_ring_for_1_gib);
    tcase_add_test(numbers, ring_all_gather_of_256_mib_over_8_lone_h100_takes_5000_us);
    tcase_add_test(numbers, collnet_direct_crosses_the_network_once);
    tcase_add_test(numbers, collnet_chain_passes_through_a_nodes_ranks_and_back);
    tcase_add_test(numbers, hops_between_rails_add_a_hop_over_nvlink);
    tcase_add_test(numbers, nvls_over_nodes_adds_one_hop_and_is_as_fast_as_the_nics);
    tcase_add_test(numbers, with_sharp_nvls_is_chosen_for_1_mib_over_16_nodes);
    tcase_add_test(numbers,
                   nvls_tree_bus_bandwidth_is_within_2_percent_of_that_measured_on_2_h100_nodes);
    tcase_add_test(numbers, broadcast_latency_is_one_step_in_a_node_and_one_per_rank_between_nodes);
    tcase_add_test(numbers, a_tree_waits_for_the_fullest_node);
    tcase_add_test(numbers, a_send_uses_all_channels_of_the_link_it_crosses);
    tcase_add_test(numbers, calibration_applies_to_a_send);
    tcase_add_test(numbers, an_all_to_all_sends_all_but_a_ranks_own_part);
    tcase_add_test(numbers, calibration_applies_to_an_all_to_all);
    tcase_add_test(numbers, nvls_bus_bandwidth_is_within_1_percent_of_that_measured_on_8_h200);
    tcase_add_test(numbers, on_8_h100_the_choice_turns_from_ring_ll_to_nvls_between_1_and_2_mib);
    tcase_add_test(numbers, times_agree_with_a_separate_port_of_nccls_model);

    Suite *s = suite_create("sim/cost/collective: numbers");
    suite_add_tcase(s, numbers);
    return s;
}

TEST_MAIN(suite)
