#include "sim/cost/collective.h"

#include "sim/cost/curve.h"
#include "tests/testing.h"

#include <math.h>

/* The laws hold over all of these; the published numbers are for the first few. Channels and rates
 * are those that NCCL's search settles on for the machine. */
enum {
    H100_NODE,
    H100_4,
    H100_2_NODES,
    H100_16_NODES,
    H100_8_ALONE,
    A100_NODE,
    A100_128_NODES,
    B200_NODE,
    B200_3_NODES,
    V100_PCI,
    V100_6_NODES,
    UNEVEN,
    MILLION,
    OFF_RAILS,
    SHARP_2_NODES,
    SHARP_16_NODES,
    SHARP_ALONE,
    SHARP_A100,
    UNCAPPED_VOLTA, /* and two more: on one, two and four nodes */
    UNCAPPED_AMPERE = UNCAPPED_VOLTA + 3,
    UNCAPPED_HOPPER = UNCAPPED_AMPERE + 3,
    UNCAPPED_BLACKWELL = UNCAPPED_HOPPER + 3,
    NUM_GROUPS = UNCAPPED_BLACKWELL + 3
};

#define CALIBRATION .bandwidth_factor = 1, .latency_factor = 1
/* Of ring and tree, in GB/s. */
#define CHANNELS(num, intra_gb, inter_gb) \
    .num_channels = (num), .intra_bytes_per_s = (intra_gb)*1e9, .inter_bytes_per_s = (inter_gb)*1e9
/* Of NVSwitch with multicast, in GB/s. */
#define NVLS(num, intra_gb, inter_gb)                                                     \
    .in_network = true, .nvls_channels = (num), .nvls_intra_bytes_per_s = (intra_gb)*1e9, \
    .nvls_inter_bytes_per_s = (inter_gb)*1e9

/* Links so fast that only NCCL's own caps bound a channel. */
#define UNCAPPED(nodes, arch_, amd)                                                        \
    {                                                                                      \
        .num_ranks = 8 * (nodes), .num_nodes = (nodes), .arch = (arch_), .amd_cpu = (amd), \
        .ll128 = true, CHANNELS(4, 200, 200), NVLS(4, 200, 200), CALIBRATION               \
    }

// clang-format off
static const struct comm_group groups[NUM_GROUPS] = {
    [H100_NODE] = { 8, 1, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, CHANNELS(24, 15, 15),
                    NVLS(8, 40, 60), CALIBRATION },
    [H100_4] = { 4, 1, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, .amd_cpu = true,
                 CHANNELS(24, 15, 15), NVLS(8, 40, 60), CALIBRATION },
    [H100_2_NODES] = { 16, 2, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, CHANNELS(8, 48, 48),
                       NVLS(8, 40, 48), CALIBRATION },
    [H100_16_NODES] = { 128, 16, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, CHANNELS(8, 48, 48),
                        NVLS(8, 40, 48), CALIBRATION },
    [H100_8_ALONE] = { 8, 8, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, CHANNELS(2, 24, 24),
                       CALIBRATION },
    [A100_NODE] = { 8, 1, ARCH_AMPERE, LINK_NVLINK, .ll128 = true, .amd_cpu = true,
                    CHANNELS(24, 10, 10), CALIBRATION },
    [A100_128_NODES] = { 1024, 128, ARCH_AMPERE, LINK_NVLINK, .ll128 = true,
                         CHANNELS(8, 24, 24), .amd_cpu = true, CALIBRATION },
    [B200_NODE] = { 8, 1, ARCH_BLACKWELL, LINK_NVLINK, .ll128 = true, CHANNELS(24, 30, 30),
                    NVLS(8, 90, 90), CALIBRATION },
    [B200_3_NODES] = { 24, 3, ARCH_BLACKWELL, LINK_NVLINK, .ll128 = true, .amd_cpu = true,
                       CHANNELS(16, 48, 46), NVLS(8, 90, 48), CALIBRATION },
    [V100_PCI] = { 4, 1, ARCH_VOLTA, LINK_PCI, CHANNELS(2, 12, 12), CALIBRATION },
    [V100_6_NODES] = { 24, 6, ARCH_VOLTA, LINK_PCI, CHANNELS(4, 10, 9), CALIBRATION },
    [UNEVEN] = { 7, 3, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, CHANNELS(2, 24, 24),
                 NVLS(4, 40, 24), CALIBRATION },
    [MILLION] = { 1000000, 125000, ARCH_HOPPER, LINK_NVLINK, CHANNELS(8, 48, 48),
                  NVLS(8, 40, 48), CALIBRATION },
    [OFF_RAILS] = { 8, 8, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, .crosses_rails = true,
                    CHANNELS(2, 24, 24), CALIBRATION },
    [SHARP_2_NODES] = { 16, 2, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, .sharp = true,
                        CHANNELS(8, 48, 48), NVLS(8, 40, 48), CALIBRATION },
    [SHARP_16_NODES] = { 128, 16, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, .sharp = true,
                         CHANNELS(8, 48, 48), NVLS(8, 40, 48), CALIBRATION },
    [SHARP_ALONE] = { 64, 64, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, .sharp = true,
                      CHANNELS(2, 24, 24), CALIBRATION },
    [SHARP_A100] = { 512, 64, ARCH_AMPERE, LINK_NVLINK, .ll128 = true, .sharp = true,
                     CHANNELS(4, 24, 24), CALIBRATION },
    [UNCAPPED_VOLTA] = UNCAPPED(1, ARCH_VOLTA, false),
    [UNCAPPED_VOLTA + 1] = UNCAPPED(2, ARCH_VOLTA, false),
    [UNCAPPED_VOLTA + 2] = UNCAPPED(4, ARCH_VOLTA, false),
    [UNCAPPED_AMPERE] = UNCAPPED(1, ARCH_AMPERE, true),
    [UNCAPPED_AMPERE + 1] = UNCAPPED(2, ARCH_AMPERE, true),
    [UNCAPPED_AMPERE + 2] = UNCAPPED(4, ARCH_AMPERE, true),
    [UNCAPPED_HOPPER] = UNCAPPED(1, ARCH_HOPPER, false),
    [UNCAPPED_HOPPER + 1] = UNCAPPED(2, ARCH_HOPPER, false),
    [UNCAPPED_HOPPER + 2] = UNCAPPED(4, ARCH_HOPPER, true),
    [UNCAPPED_BLACKWELL] = UNCAPPED(1, ARCH_BLACKWELL, false),
    [UNCAPPED_BLACKWELL + 1] = UNCAPPED(2, ARCH_BLACKWELL, false),
    [UNCAPPED_BLACKWELL + 2] = UNCAPPED(4, ARCH_BLACKWELL, true),
};
// clang-format on

#define KIB            1024.0
#define MIB            (1024 * KIB)
#define GIB            (1024 * MIB)
#define SECONDS_PER_US 1e-6

/* From a byte to 1e18 bytes, each 5% longer than the last. */
enum { NUM_SIZES = 851, TENFOLD = 47 };
static double size_bytes(int i)
{
    return pow(1.05, i);
}

static double time_s(const struct collective_algo *algo, const struct comm_group *group,
                     enum collective collective, enum protocol protocol, double bytes)
{
    double latency_s, bytes_per_s;
    algo->cost(group, collective, protocol, bytes, &latency_s, &bytes_per_s);
    return latency_s + bytes / bytes_per_s;
}

static double time_us(const char *algo, int group, enum collective collective,
                      enum protocol protocol, double bytes)
{
    return time_s(collective_algo_find(algo), &groups[group], collective, protocol, bytes) /
           SECONDS_PER_US;
}

/* Calls `claim` for every group, collective and protocol for which NCCL would consider `algo`. */
static void each_use(const struct collective_algo *algo,
                     void (*claim)(const struct collective_algo *, const struct comm_group *,
                                   enum collective, enum protocol))
{
    for (int g = 0; g < NUM_GROUPS; g++)
        for (int c = 0; c < NUM_COLLECTIVES; c++)
            for (int p = 0; p < NUM_PROTOCOLS; p++)
                if (algo->available(&groups[g], (enum collective)c, (enum protocol)p))
                    claim(algo, &groups[g], (enum collective)c, (enum protocol)p);
}

/* Laws of every algorithm. */

static void is_positive(const struct collective_algo *algo, const struct comm_group *group,
                        enum collective collective, enum protocol protocol)
{
    for (int i = 0; i < NUM_SIZES; i += TENFOLD) {
        double bytes = size_bytes(i);
        double got_s = time_s(algo, group, collective, protocol, bytes);
        ck_assert(isfinite(got_s) && got_s > 0);
    }
}

START_TEST(every_time_is_finite_and_positive_up_to_a_million_ranks_and_1e18_bytes)
{
    each_use(&collective_algos[_i], is_positive);
}
END_TEST

/* The tree's correction rises by 4/3 at most between neighbouring size classes, so that a message
 * only a little longer can be predicted to be faster, but not one a third longer. */
static void grows(const struct collective_algo *algo, const struct comm_group *group,
                  enum collective collective, enum protocol protocol)
{
    for (int i = 0; i < NUM_SIZES; i++)
        ck_assert_double_ge(time_s(algo, group, collective, protocol, 1.34 * size_bytes(i)),
                            time_s(algo, group, collective, protocol, size_bytes(i)));
}

START_TEST(a_message_a_third_longer_never_takes_less_time)
{
    each_use(&collective_algos[_i], grows);
}
END_TEST

static struct comm_group with_bandwidth(struct comm_group group, double factor)
{
    group.intra_bytes_per_s *= factor;
    group.inter_bytes_per_s *= factor;
    group.nvls_intra_bytes_per_s *= factor;
    group.nvls_inter_bytes_per_s *= factor;
    return group;
}

static void gains_from_bandwidth(const struct collective_algo *algo, const struct comm_group *group,
                                 enum collective collective, enum protocol protocol)
{
    const struct comm_group faster = with_bandwidth(*group, 1.1);
    for (int i = 0; i < NUM_SIZES; i += TENFOLD)
        ck_assert_double_le(time_s(algo, &faster, collective, protocol, size_bytes(i)),
                            time_s(algo, group, collective, protocol, size_bytes(i)));
}

START_TEST(more_bandwidth_is_never_slower)
{
    each_use(&collective_algos[_i], gains_from_bandwidth);
}
END_TEST

static void is_not_chosen_over(const struct collective_algo *algo, const struct comm_group *group,
                               enum collective collective, enum protocol protocol)
{
    for (int i = 0; i < NUM_SIZES; i += TENFOLD / 2)
        ck_assert_double_le(collective_choose(group, collective, size_bytes(i)).time_s,
                            time_s(algo, group, collective, protocol, size_bytes(i)));
}

START_TEST(the_chosen_time_is_at_most_that_of_every_available_algorithm)
{
    each_use(&collective_algos[_i], is_not_chosen_over);
}
END_TEST

START_TEST(every_algorithm_is_found_by_its_name_and_says_where_it_comes_from)
{
    const struct collective_algo *algo = &collective_algos[_i];
    ck_assert_ptr_eq(collective_algo_find(algo->name), algo);
    ck_assert_str_ne(algo->summary, "");
    ck_assert_str_ne(algo->source, "");
}
END_TEST

/* One that no group can use would pass every law. */
START_TEST(every_algorithm_is_available_to_some_group)
{
    int num_uses = 0;
    for (int g = 0; g < NUM_GROUPS; g++)
        for (int c = 0; c < NUM_COLLECTIVES; c++)
            num_uses +=
                collective_algos[_i].available(&groups[g], (enum collective)c, PROTOCOL_SIMPLE);
    ck_assert_int_gt(num_uses, 0);
}
END_TEST

/* Laws of the choice. */

START_TEST(one_rank_is_free)
{
    struct comm_group alone = groups[H100_NODE];
    alone.num_ranks = 1;
    for (int c = 0; c < NUM_COLLECTIVES; c++) {
        ck_assert_double_eq(collective_s(&alone, (enum collective)c, GIB), 0);
        ck_assert_ptr_null(collective_choose(&alone, (enum collective)c, GIB).algo);
    }
    ck_assert_double_eq(point_to_point_s(&alone, GIB), 0);
    ck_assert_double_eq(all_to_all_s(&alone, GIB), 0);
}
END_TEST

START_TEST(no_bytes_are_free)
{
    const struct comm_group *group = &groups[_i];
    for (int c = 0; c < NUM_COLLECTIVES; c++) {
        ck_assert_double_eq(collective_s(group, (enum collective)c, 0), 0);
        ck_assert_ptr_null(collective_choose(group, (enum collective)c, 0).algo);
    }
    ck_assert_double_eq(point_to_point_s(group, 0), 0);
}
END_TEST

START_TEST(the_choice_is_an_available_algorithm_and_its_parts_add_up_to_its_time)
{
    const struct comm_group *group = &groups[_i];
    for (int c = 0; c < NUM_COLLECTIVES; c++)
        for (int i = 0; i < NUM_SIZES; i += TENFOLD / 2) {
            double bytes = size_bytes(i);
            struct collective_choice got = collective_choose(group, (enum collective)c, bytes);
            ck_assert(got.algo->available(group, (enum collective)c, got.protocol));
            ck_assert_double_eq(got.time_s, got.latency_s + bytes / got.bytes_per_s);
        }
}
END_TEST

START_TEST(the_chosen_time_never_falls_when_the_message_grows_by_a_third)
{
    const struct comm_group *group = &groups[_i];
    for (int c = 0; c < NUM_COLLECTIVES; c++)
        for (int i = 0; i < NUM_SIZES; i++)
            ck_assert_double_ge(
                collective_choose(group, (enum collective)c, 1.34 * size_bytes(i)).time_s,
                collective_choose(group, (enum collective)c, size_bytes(i)).time_s);
}
END_TEST

/* Only all-reduce has the tree and its correction. */
START_TEST(the_chosen_time_of_all_else_than_all_reduce_never_falls_as_messages_grow)
{
    const struct comm_group *group = &groups[_i];
    for (int c = COLLECTIVE_ALL_REDUCE + 1; c < NUM_COLLECTIVES; c++)
        for (int i = 0; i < NUM_SIZES; i++)
            ck_assert_double_ge(
                collective_choose(group, (enum collective)c, size_bytes(i + 1)).time_s,
                collective_choose(group, (enum collective)c, size_bytes(i)).time_s);
}
END_TEST

static double reached(const struct collective_choice *choice, int group, int collective)
{
    return choice->algo->reached
               ? choice->algo->reached(&groups[group], (enum collective)collective)
               : 1;
}

START_TEST(calibration_multiplies_the_latency_and_divides_the_size_part_of_the_choice)
{
    struct comm_group calibrated = groups[_i];
    calibrated.latency_factor = 3;
    calibrated.bandwidth_factor = 0.5;
    for (int c = 0; c < NUM_COLLECTIVES; c++)
        for (int i = 0; i < NUM_SIZES; i += TENFOLD) {
            double bytes = size_bytes(i);
            struct collective_choice choice =
                collective_choose(&groups[_i], (enum collective)c, bytes);
            double bytes_per_s = choice.bytes_per_s * reached(&choice, _i, c);
            double want_s = 3 * choice.latency_s + bytes / bytes_per_s / 0.5;
            double got_s = collective_s(&calibrated, (enum collective)c, bytes);
            ck_assert_double_eq_tol(got_s / want_s, 1, 1e-12);
        }
}
END_TEST

START_TEST(without_calibration_the_time_is_nccls_own_where_all_of_its_rate_is_reached)
{
    for (int c = 0; c < NUM_COLLECTIVES; c++) {
        struct collective_choice choice =
            collective_choose(&groups[_i], (enum collective)c, 3 * MIB);
        double time_s = collective_s(&groups[_i], (enum collective)c, 3 * MIB);
        if (reached(&choice, _i, c) < 1)
            ck_assert_double_gt(time_s, choice.time_s);
        else
            ck_assert_double_eq(time_s, choice.time_s);
    }
}
END_TEST

/* Laws of the ring. */

START_TEST(ring_time_never_falls_as_messages_grow)
{
    const struct collective_algo *ring = collective_algo_find("ring");
    for (int c = 0; c < NUM_COLLECTIVES; c++)
        for (int p = 0; p < NUM_PROTOCOLS; p++)
            for (int i = 0; i < NUM_SIZES; i++)
                ck_assert_double_ge(
                    time_s(ring, &groups[_i], (enum collective)c, (enum protocol)p,
                           size_bytes(i + 1)),
                    time_s(ring, &groups[_i], (enum collective)c, (enum protocol)p, size_bytes(i)));
}
END_TEST

START_TEST(a_ring_moves_an_all_reduce_as_a_reduce_scatter_and_an_all_gather)
{
    const struct collective_algo *ring = collective_algo_find("ring");
    for (int p = 0; p < NUM_PROTOCOLS; p++) {
        double bytes_per_s[NUM_COLLECTIVES], latency_s;
        for (int c = 0; c < NUM_COLLECTIVES; c++)
            ring->cost(&groups[_i], (enum collective)c, (enum protocol)p, MIB, &latency_s,
                       &bytes_per_s[c]);
        double halves =
            1 / bytes_per_s[COLLECTIVE_REDUCE_SCATTER] + 1 / bytes_per_s[COLLECTIVE_ALL_GATHER];
        ck_assert_double_eq_tol(halves * bytes_per_s[COLLECTIVE_ALL_REDUCE], 1, 1e-12);
    }
}
END_TEST

START_TEST(a_ring_serves_every_group_and_collective)
{
    const struct collective_algo *ring = collective_algo_find("ring");
    for (int c = 0; c < NUM_COLLECTIVES; c++)
        ck_assert(ring->available(&groups[_i], (enum collective)c, PROTOCOL_SIMPLE));
}
END_TEST

/* What NCCL enables. */

START_TEST(ll128_needs_links_that_keep_128_bytes_whole)
{
    struct comm_group group = groups[H100_NODE];
    group.ll128 = false;
    for (int i = 0; i < num_collective_algos; i++)
        for (int c = 0; c < NUM_COLLECTIVES; c++)
            ck_assert(!collective_algos[i].available(&group, (enum collective)c, PROTOCOL_LL128));
}
END_TEST

static bool is_available(const char *algo, const struct comm_group *group,
                         enum collective collective)
{
    return collective_algo_find(algo)->available(group, collective, PROTOCOL_SIMPLE);
}

START_TEST(nvls_needs_a_multicasting_switch_hopper_three_ranks_and_one_node_or_sharp)
{
    const struct comm_group good = groups[H100_NODE];
    ck_assert(is_available("nvls", &good, COLLECTIVE_ALL_REDUCE));
    ck_assert(is_available("nvls", &good, COLLECTIVE_ALL_GATHER));
    ck_assert(!is_available("nvls", &good, COLLECTIVE_BROADCAST));

    struct comm_group plain_switch = good, ampere = good, two_nodes = good, two_ranks = good;
    plain_switch.in_network = false;
    ampere.arch = ARCH_AMPERE;
    two_nodes.num_nodes = 2;
    two_ranks.num_ranks = 2;
    ck_assert(!is_available("nvls", &plain_switch, COLLECTIVE_ALL_REDUCE));
    ck_assert(!is_available("nvls", &ampere, COLLECTIVE_ALL_REDUCE));
    ck_assert(!is_available("nvls", &two_nodes, COLLECTIVE_ALL_REDUCE));
    ck_assert(is_available("nvls", &groups[SHARP_2_NODES], COLLECTIVE_ALL_REDUCE));
    ck_assert(is_available("nvls", &groups[SHARP_2_NODES], COLLECTIVE_ALL_GATHER));
    ck_assert(!is_available("nvls", &two_ranks, COLLECTIVE_ALL_REDUCE));
}
END_TEST

START_TEST(nvls_gathers_and_scatters_over_at_most_32_ranks)
{
    struct comm_group nvl72 = groups[B200_NODE];
    nvl72.num_ranks = 72;
    ck_assert(is_available("nvls", &nvl72, COLLECTIVE_ALL_REDUCE));
    ck_assert(!is_available("nvls", &nvl72, COLLECTIVE_ALL_GATHER));
    ck_assert(!is_available("nvls", &nvl72, COLLECTIVE_REDUCE_SCATTER));
}
END_TEST

START_TEST(nvls_tree_is_for_all_reduce_over_several_nodes)
{
    ck_assert(is_available("nvls_tree", &groups[H100_2_NODES], COLLECTIVE_ALL_REDUCE));
    ck_assert(!is_available("nvls_tree", &groups[H100_2_NODES], COLLECTIVE_ALL_GATHER));
    ck_assert(!is_available("nvls_tree", &groups[H100_NODE], COLLECTIVE_ALL_REDUCE));
    ck_assert(!is_available("nvls_tree", &groups[A100_128_NODES], COLLECTIVE_ALL_REDUCE));
}
END_TEST

START_TEST(pat_gathers_and_scatters_with_one_rank_per_node)
{
    ck_assert(is_available("pat", &groups[H100_8_ALONE], COLLECTIVE_ALL_GATHER));
    ck_assert(is_available("pat", &groups[H100_8_ALONE], COLLECTIVE_REDUCE_SCATTER));
    ck_assert(!is_available("pat", &groups[H100_8_ALONE], COLLECTIVE_ALL_REDUCE));
    ck_assert(!is_available("pat", &groups[H100_16_NODES], COLLECTIVE_ALL_GATHER));
}
END_TEST

START_TEST(collnet_needs_sharp_several_nodes_and_at_most_8_ranks_in_each)
{
    struct comm_group good = groups[SHARP_16_NODES];
    ck_assert(is_available("collnet_direct", &good, COLLECTIVE_ALL_REDUCE));
    ck_assert(is_available("collnet_chain", &good, COLLECTIVE_ALL_REDUCE));
    ck_assert(!is_available("collnet_chain", &good, COLLECTIVE_ALL_GATHER));
    ck_assert(!is_available("collnet_direct", &good, COLLECTIVE_BROADCAST));

    struct comm_group plain = good, node = good, racks = good;
    plain.sharp = false;
    node.num_ranks = 8;
    node.num_nodes = 1;
    racks.num_ranks = 9 * racks.num_nodes;
    const struct comm_group *lacking[] = { &plain, &node, &racks };
    for (int i = 0; i < 3; i++) {
        ck_assert(!is_available("collnet_direct", lacking[i], COLLECTIVE_ALL_REDUCE));
        ck_assert(!is_available("collnet_chain", lacking[i], COLLECTIVE_ALL_REDUCE));
    }
}
END_TEST

START_TEST(the_networks_switches_gather_and_scatter_only_with_a_nic_for_each_rank)
{
    ck_assert(is_available("collnet_direct", &groups[SHARP_16_NODES], COLLECTIVE_ALL_GATHER));
    ck_assert(is_available("collnet_direct", &groups[SHARP_16_NODES], COLLECTIVE_REDUCE_SCATTER));
    ck_assert(!is_available("collnet_direct", &groups[SHARP_A100], COLLECTIVE_ALL_GATHER));
    ck_assert(is_available("collnet_direct", &groups[SHARP_A100], COLLECTIVE_ALL_REDUCE));
}
END_TEST

START_TEST(an_unknown_algorithm_is_not_found)
{
    ck_assert_ptr_null(collective_algo_find("rings"));
}
END_TEST

/* Hand calculations. */

/* base 8.4 + 14 steps x 3.4 us; 24 x 15 GB/s x 8/14. */
START_TEST(ring_simple_all_reduce_of_1_gib_on_8_h100_takes_5276_us)
{
    double latency_s, bytes_per_s;
    collective_algo_find("ring")->cost(&groups[H100_NODE], COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE,
                                       GIB, &latency_s, &bytes_per_s);
    ck_assert_double_eq_tol(latency_s / SECONDS_PER_US, 56.0, 1e-9);
    ck_assert_double_eq_tol(bytes_per_s / 1e9, 205.714, 0.001);
    ck_assert_double_eq_tol(time_us("ring", H100_NODE, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, GIB),
                            5275.6, 0.05);
}
END_TEST

/* 25 us; 8 channels x min(40 x 0.85 x 7/8 x 2 = 59.5, 60) GB/s x 8/14 = 272 GB/s. */
START_TEST(nvls_all_reduce_of_1_gib_on_8_h100_takes_3973_us)
{
    ck_assert_double_eq_tol(time_us("nvls", H100_NODE, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, GIB),
                            3972.6, 0.05);
}
END_TEST

/* GB/s of the bus, 8 GiB on part of a node of 8 H200 (ml-engineering, network/README): NCCL's own
 * model says 475 of all. The four were measured with a ring. */
START_TEST(parts_of_an_h200_node_reduce_as_fast_as_measured)
{
    static const struct {
        int num_ranks;
        double bus_gb_per_s;
    } measured[] = { { 4, 363.3 }, { 5, 414.2 }, { 6, 435.6 }, { 7, 460.0 }, { 8, 473.1 } };
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        struct comm_group group = groups[H100_NODE];
        double n = group.num_ranks = measured[i].num_ranks;
        double time_s = collective_s(&group, COLLECTIVE_ALL_REDUCE, 8 * GIB);
        ck_assert_double_eq_tol(2 * (n - 1) / n * 8 * GIB / time_s / 1e9 / measured[i].bus_gb_per_s,
                                1, 0.02);
    }
}
END_TEST

/* 6.6 + 14 x 0.6 us; min(141, 0.5 x 360) x 8/14 GB/s. */
START_TEST(ring_ll_all_reduce_of_64_kib_on_8_h100_takes_16_us)
{
    ck_assert_double_eq_tol(
        time_us("ring", H100_NODE, COLLECTIVE_ALL_REDUCE, PROTOCOL_LL, 64 * KIB), 15.81, 0.005);
}
END_TEST

/* 8.4 + 7 x 3.4 us; 360 x 8/7 GB/s. */
START_TEST(ring_simple_reduce_scatter_of_256_mib_on_8_h100_takes_685_us)
{
    ck_assert_double_eq_tol(
        time_us("ring", H100_NODE, COLLECTIVE_REDUCE_SCATTER, PROTOCOL_SIMPLE, 256 * MIB), 684.65,
        0.005);
}
END_TEST

/* Ring: (8.4 + 224 x 3.4 + 30 x 14 us) x 1.4; 384 x 128/254 GB/s. Tree: 8.4 + 2 x (7 x 4 + 4 x 14)
 * us; 8 x min(0.92 x 48, 36) / 2 GB/s. */
START_TEST(over_16_h100_nodes_a_ring_beats_a_tree_for_1_gib)
{
    ck_assert_double_eq_tol(
        time_us("ring", H100_16_NODES, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, GIB), 7214.7, 0.05);
    ck_assert_double_eq_tol(
        time_us("tree", H100_16_NODES, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, GIB), 7632.9, 0.05);
}
END_TEST

/* 2046 steps, of which 254 cross the network, against 2 x (7 + 7). The hosts are Intel's here. */
START_TEST(over_128_a100_nodes_a_tree_beats_a_ring_for_1_gib)
{
    struct comm_group group = groups[A100_128_NODES];
    group.amd_cpu = false;
    double ring_s =
        time_s(collective_algo_find("ring"), &group, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, GIB);
    double tree_s =
        time_s(collective_algo_find("tree"), &group, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, GIB);
    ck_assert_double_eq_tol(ring_s / SECONDS_PER_US, 24694, 0.5);
    ck_assert_double_eq_tol(tree_s / SECONDS_PER_US, 15341, 0.5);
}
END_TEST

/* 8.4 + 7 x 14 us; 2 x 24 x 8/7 GB/s. */
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
    collective_algo_find(algo)->cost(&groups[group], collective, PROTOCOL_SIMPLE, GIB, &latency_s,
                                     &bytes_per_s);
    ck_assert_double_eq_tol(latency_s / SECONDS_PER_US, want_us, 1e-9);
    ck_assert_double_eq_tol(bytes_per_s / 1e9, want_gb_per_s, 1e-9);
}

/* 2 x (3.7 + 7 x 0.4) + 31 us. A NIC for each rank: 0.85 x 384 / 2 GB/s; gathered by 8 x min(48,
 * 0.9 x 48). Two ranks to a NIC (4 of 24 GB/s): 96 x 2/3 / 2. One rank to a node: no hop inside,
 * the tree's 14 us outside, and 2/(1/2 + 1) of 0.85 x 48 / 2. */
START_TEST(collnet_direct_crosses_the_network_once)
{
    ck_cost("collnet_direct", SHARP_16_NODES, COLLECTIVE_ALL_REDUCE, 44.0, 163.2);
    ck_cost("collnet_direct", SHARP_2_NODES, COLLECTIVE_ALL_REDUCE, 44.0, 163.2);
    ck_cost("collnet_direct", SHARP_16_NODES, COLLECTIVE_ALL_GATHER, 44.0, 345.6);
    ck_cost("collnet_direct", SHARP_A100, COLLECTIVE_ALL_REDUCE, 44.0, 32.0);
    ck_cost("collnet_direct", SHARP_ALONE, COLLECTIVE_ALL_REDUCE, 14.0, 27.2);
}
END_TEST

/* 2 x 7 x 2.8 + 30 us and 384 / 2 GB/s; alone 14 us and 48 / 2. */
START_TEST(collnet_chain_goes_through_the_ranks_of_a_node_and_back)
{
    ck_cost("collnet_chain", SHARP_16_NODES, COLLECTIVE_ALL_REDUCE, 69.2, 192.0);
    ck_cost("collnet_chain", SHARP_ALONE, COLLECTIVE_ALL_REDUCE, 14.0, 24.0);
}
END_TEST

/* As on one rail but for 3.4 us of NVLink in each of 7 hops of a gather and 14 of an all-reduce
 * (the latter 1.4 times), 2 x 3 of a tree, 3/3.5 of PAT, and in the one of a send. */
START_TEST(hops_that_cross_rails_go_over_nvlink_first)
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
    for (size_t i = 0; i < sizeof hops / sizeof *hops; i++) {
        double on_us =
            time_us(hops[i].algo, H100_8_ALONE, hops[i].collective, PROTOCOL_SIMPLE, MIB);
        double off_us = time_us(hops[i].algo, OFF_RAILS, hops[i].collective, PROTOCOL_SIMPLE, MIB);
        ck_assert_double_eq_tol(off_us - on_us, hops[i].more_us, 1e-6);
    }
    double send_s = point_to_point_s(&groups[OFF_RAILS], MIB);
    ck_assert_double_eq_tol(send_s - point_to_point_s(&groups[H100_8_ALONE], MIB), 3.4e-6, 1e-12);
}
END_TEST

/* 25 + 18 us; 8 x min(40 x 0.85 x 7/8 x 2, 48) x 128/254 GB/s, and of a gather 8 x 40 x 0.85 x 7/8
 * x 7/8. */
START_TEST(nvls_over_nodes_adds_one_hop_and_is_as_fast_as_the_nics)
{
    ck_cost("nvls", SHARP_16_NODES, COLLECTIVE_ALL_REDUCE, 43.0, 384 * 128 / 254.0);
    ck_cost("nvls", SHARP_16_NODES, COLLECTIVE_ALL_GATHER, 43.0, 208.25);
}
END_TEST

/* 16 nodes: 2 x (7 x 4 + 4 x 14) us of a tree's latency, and more of a ring's. */
START_TEST(with_sharp_an_all_reduce_of_1_mib_over_16_nodes_is_nvls)
{
    ck_assert_str_eq(
        collective_choose(&groups[SHARP_16_NODES], COLLECTIVE_ALL_REDUCE, MIB).algo->name, "nvls");
    ck_assert_double_lt(
        collective_choose(&groups[SHARP_16_NODES], COLLECTIVE_ALL_REDUCE, MIB).time_s,
        collective_choose(&groups[H100_16_NODES], COLLECTIVE_ALL_REDUCE, MIB).time_s);
}
END_TEST

/* nccl-tests on 2 nodes of Azure's NDv5, with the SHARP plugin, 16 GiB: 466.3 GB/s (Azure, by
 * NVLSTree). */
START_TEST(nvls_tree_bus_bandwidth_is_within_2_percent_of_that_measured_on_2_h100_nodes)
{
    double us =
        time_us("nvls_tree", SHARP_2_NODES, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, 16 * GIB);
    double bus_bytes_per_s = 16 * GIB / (us * SECONDS_PER_US) * 1.875;
    ck_assert_double_eq_tol(bus_bytes_per_s / 466.3e9, 1, 0.02);
}
END_TEST

/* In a node 8.4 + 3.4 us and 360 GB/s. Over 16 nodes 8.4 + 128 x 14 us and 384 GB/s. */
START_TEST(a_broadcast_streams_in_a_node_and_hops_from_rank_to_rank_between_nodes)
{
    ck_assert_double_eq_tol(
        time_us("ring", H100_NODE, COLLECTIVE_BROADCAST, PROTOCOL_SIMPLE, 360e6), 1011.8, 1e-6);
    ck_assert_double_eq_tol(
        time_us("ring", H100_16_NODES, COLLECTIVE_BROADCAST, PROTOCOL_SIMPLE, 384e6), 2800.4, 1e-6);
}
END_TEST

/* Seven ranks on three nodes are three, two and two: 8.4 + 2 x (2 x 4 + 1 x 14) us of latency. */
START_TEST(a_tree_waits_for_the_fullest_node)
{
    double latency_s, bytes_per_s;
    collective_algo_find("tree")->cost(&groups[UNEVEN], COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, MIB,
                                       &latency_s, &bytes_per_s);
    ck_assert_double_eq_tol(latency_s / SECONDS_PER_US, 52.4, 1e-9);
}
END_TEST

/* 5 us and 360 GB/s in a node, 10 us and 2 x 24 GB/s between nodes. */
START_TEST(a_send_uses_all_channels_of_the_link_it_crosses)
{
    ck_assert_double_eq_tol(point_to_point_s(&groups[H100_NODE], 360e6), 1005e-6, 1e-15);
    ck_assert_double_eq_tol(point_to_point_s(&groups[H100_8_ALONE], 48e6), 1010e-6, 1e-15);
}
END_TEST

START_TEST(calibration_applies_to_a_send)
{
    struct comm_group group = groups[H100_NODE];
    group.latency_factor = 2;
    group.bandwidth_factor = 0.8;
    ck_assert_double_eq_tol(point_to_point_s(&group, 360e6), 2 * 5e-6 + 1e-3 / 0.8, 1e-15);
}
END_TEST

/* 5 us, and 7/8 of 360 MB at 360 GB/s in a node; 10 us, and 7/8 of 80 MB at 0.8 of a 50 GB/s NIC
 * each where ranks are alone. Over 16 nodes of 8 one rank has an eighth of 8 NICs, for 15/16. */
START_TEST(an_all_to_all_leaves_a_rank_its_own_part)
{
    ck_assert_double_eq_tol(all_to_all_s(&groups[H100_NODE], 360e6), 5e-6 + 875e-6, 1e-15);
    ck_assert_double_eq_tol(all_to_all_s(&groups[H100_8_ALONE], 80e6), 10e-6 + 1750e-6, 1e-15);
    ck_assert_double_eq_tol(all_to_all_s(&groups[H100_16_NODES], 640e6), 10e-6 + 15e-3, 1e-15);
}
END_TEST

START_TEST(calibration_applies_to_an_all_to_all)
{
    struct comm_group group = groups[H100_NODE];
    group.latency_factor = 2;
    group.bandwidth_factor = 0.8;
    ck_assert_double_eq_tol(all_to_all_s(&group, 360e6), 2 * 5e-6 + 875e-6 / 0.8, 1e-15);
}
END_TEST

/* Measured curves: 100 us at 1 MiB, 160 us at 4 MiB. */

static struct curve measured_curve(void)
{
    static const double points[][2] = { { MIB, 100e-6 }, { 4 * MIB, 160e-6 }, { 64 * MIB, 1e-3 } };
    struct curve curve = { .num_points = 3 };
    for (int i = 0; i < curve.num_points; i++)
        curve.points[i] = (struct curve_point){ points[i][0], points[i][1], log(points[i][0]),
                                                log(points[i][1]) };
    return curve;
}

static struct comm_group measured_group(const struct curve *curve)
{
    struct comm_group group = groups[A100_NODE];
    group.curves[COLLECTIVE_ALL_REDUCE] = curve;
    return group;
}

START_TEST(a_measured_size_takes_the_measured_time)
{
    struct curve curve = measured_curve();
    struct comm_group group = measured_group(&curve);
    for (int i = 0; i < curve.num_points; i++)
        ck_assert_double_eq_tol(collective_s(&group, COLLECTIVE_ALL_REDUCE, curve.points[i].bytes),
                                curve.points[i].time_s, 1e-15);
}
END_TEST

/* Half way between 1 and 4 MiB on a log scale is 2 MiB: sqrt(100 x 160) us. */
START_TEST(between_two_measured_sizes_log_time_is_linear_in_log_size)
{
    struct curve curve = measured_curve();
    struct comm_group group = measured_group(&curve);
    ck_assert_double_eq_tol(collective_s(&group, COLLECTIVE_ALL_REDUCE, 2 * MIB),
                            sqrt(100e-6 * 160e-6), 1e-12);
}
END_TEST

START_TEST(beyond_the_measured_sizes_the_model_is_scaled_to_meet_the_ends)
{
    struct curve curve = measured_curve();
    struct comm_group group = measured_group(&curve);
    const struct comm_group *model = &groups[A100_NODE];
    for (double bytes = 1; bytes < MIB; bytes *= 3)
        ck_assert_double_eq_tol(collective_s(&group, COLLECTIVE_ALL_REDUCE, bytes) / 100e-6,
                                collective_s(model, COLLECTIVE_ALL_REDUCE, bytes) /
                                    collective_s(model, COLLECTIVE_ALL_REDUCE, MIB),
                                1e-12);
    for (double bytes = 65 * MIB; bytes < 1e18; bytes *= 3)
        ck_assert_double_eq_tol(collective_s(&group, COLLECTIVE_ALL_REDUCE, bytes) / 1e-3,
                                collective_s(model, COLLECTIVE_ALL_REDUCE, bytes) /
                                    collective_s(model, COLLECTIVE_ALL_REDUCE, 64 * MIB),
                                1e-9 * bytes / MIB);
    double end_s = collective_s(&group, COLLECTIVE_ALL_REDUCE, 64 * MIB);
    double beyond_s = collective_s(&group, COLLECTIVE_ALL_REDUCE, 64 * MIB * (1 + 1e-9));
    ck_assert_double_eq_tol(beyond_s / end_s, 1, 1e-6);
}
END_TEST

START_TEST(a_curve_is_of_one_collective_and_leaves_nccls_choice_alone)
{
    struct curve curve = measured_curve();
    struct comm_group group = measured_group(&curve);
    const struct comm_group *model = &groups[A100_NODE];
    ck_assert_double_eq(collective_s(&group, COLLECTIVE_ALL_GATHER, MIB),
                        collective_s(model, COLLECTIVE_ALL_GATHER, MIB));
    ck_assert_double_eq(collective_choose(&group, COLLECTIVE_ALL_REDUCE, MIB).time_s,
                        collective_choose(model, COLLECTIVE_ALL_REDUCE, MIB).time_s);
    ck_assert_double_eq(collective_s(&group, COLLECTIVE_ALL_REDUCE, 0), 0);
}
END_TEST

/* Published numbers. */

/* nccl-tests on 8 H200, 8 GiB: 473.1 GB/s (ml-engineering, network/README). Bus bandwidth is the
 * message's rate times 2 x 7/8. */
START_TEST(nvls_bus_bandwidth_is_within_1_percent_of_that_measured_on_8_h200)
{
    double us = time_us("nvls", H100_NODE, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, 8 * GIB);
    double bus_bytes_per_s = 8 * GIB / (us * SECONDS_PER_US) * 1.75;
    ck_assert_double_eq_tol(bus_bytes_per_s / 1e9, 475.6, 0.05);
    ck_assert_double_eq_tol(bus_bytes_per_s / 473.1e9, 1, 0.01);
}
END_TEST

/* The same source saw NCCL's tuner report RING/LL for 1 MiB and NVLS/SIMPLE for 2 MiB. */
START_TEST(on_8_h100_the_choice_turns_from_ring_ll_to_nvls_between_1_and_2_mib)
{
    struct collective_choice small =
        collective_choose(&groups[H100_NODE], COLLECTIVE_ALL_REDUCE, MIB);
    ck_assert_str_eq(small.algo->name, "ring");
    ck_assert_int_eq(small.protocol, PROTOCOL_LL);
    ck_assert_double_eq_tol(small.time_s / SECONDS_PER_US, 28.0, 0.05);

    struct collective_choice large =
        collective_choose(&groups[H100_NODE], COLLECTIVE_ALL_REDUCE, 2 * MIB);
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
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        const struct collective_algo *algo = collective_algo_find(row->algo);
        const struct comm_group *group = &groups[row->group];
        double got_s = time_s(algo, group, row->collective, row->protocol, row->bytes);
        ck_assert_msg(fabs(got_s / row->time_s - 1) < 1e-6, "row %zu: %s of %g bytes: %g s, not %g",
                      i, row->algo, row->bytes, got_s, row->time_s);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *algos = tcase_create("algorithms");
    tcase_add_loop_test(algos,
                        every_time_is_finite_and_positive_up_to_a_million_ranks_and_1e18_bytes, 0,
                        num_collective_algos);
    tcase_add_loop_test(algos, a_message_a_third_longer_never_takes_less_time, 0,
                        num_collective_algos);
    tcase_add_loop_test(algos, more_bandwidth_is_never_slower, 0, num_collective_algos);
    tcase_add_loop_test(algos, the_chosen_time_is_at_most_that_of_every_available_algorithm, 0,
                        num_collective_algos);
    tcase_add_loop_test(algos, every_algorithm_is_found_by_its_name_and_says_where_it_comes_from, 0,
                        num_collective_algos);
    tcase_add_loop_test(algos, every_algorithm_is_available_to_some_group, 0, num_collective_algos);

    TCase *choice = tcase_create("choice");
    tcase_add_test(choice, one_rank_is_free);
    tcase_add_loop_test(choice, no_bytes_are_free, 0, NUM_GROUPS);
    tcase_add_loop_test(choice,
                        the_choice_is_an_available_algorithm_and_its_parts_add_up_to_its_time, 0,
                        NUM_GROUPS);
    tcase_add_loop_test(choice, the_chosen_time_never_falls_when_the_message_grows_by_a_third, 0,
                        NUM_GROUPS);
    tcase_add_loop_test(choice,
                        the_chosen_time_of_all_else_than_all_reduce_never_falls_as_messages_grow, 0,
                        NUM_GROUPS);
    tcase_add_loop_test(choice,
                        calibration_multiplies_the_latency_and_divides_the_size_part_of_the_choice,
                        0, NUM_GROUPS);
    tcase_add_loop_test(choice,
                        without_calibration_the_time_is_nccls_own_where_all_of_its_rate_is_reached,
                        0, NUM_GROUPS);

    TCase *ring = tcase_create("ring");
    tcase_add_loop_test(ring, ring_time_never_falls_as_messages_grow, 0, NUM_GROUPS);
    tcase_add_loop_test(ring, a_ring_moves_an_all_reduce_as_a_reduce_scatter_and_an_all_gather, 0,
                        NUM_GROUPS);
    tcase_add_loop_test(ring, a_ring_serves_every_group_and_collective, 0, NUM_GROUPS);

    TCase *enabled = tcase_create("enabled");
    tcase_add_test(enabled, ll128_needs_links_that_keep_128_bytes_whole);
    tcase_add_test(enabled,
                   nvls_needs_a_multicasting_switch_hopper_three_ranks_and_one_node_or_sharp);
    tcase_add_test(enabled, nvls_gathers_and_scatters_over_at_most_32_ranks);
    tcase_add_test(enabled, nvls_tree_is_for_all_reduce_over_several_nodes);
    tcase_add_test(enabled, pat_gathers_and_scatters_with_one_rank_per_node);
    tcase_add_test(enabled, collnet_needs_sharp_several_nodes_and_at_most_8_ranks_in_each);
    tcase_add_test(enabled, the_networks_switches_gather_and_scatter_only_with_a_nic_for_each_rank);
    tcase_add_test(enabled, an_unknown_algorithm_is_not_found);

    TCase *numbers = tcase_create("numbers");
    tcase_add_test(numbers, ring_simple_all_reduce_of_1_gib_on_8_h100_takes_5276_us);
    tcase_add_test(numbers, nvls_all_reduce_of_1_gib_on_8_h100_takes_3973_us);
    tcase_add_test(numbers, parts_of_an_h200_node_reduce_as_fast_as_measured);
    tcase_add_test(numbers, ring_ll_all_reduce_of_64_kib_on_8_h100_takes_16_us);
    tcase_add_test(numbers, ring_simple_reduce_scatter_of_256_mib_on_8_h100_takes_685_us);
    tcase_add_test(numbers, over_16_h100_nodes_a_ring_beats_a_tree_for_1_gib);
    tcase_add_test(numbers, over_128_a100_nodes_a_tree_beats_a_ring_for_1_gib);
    tcase_add_test(numbers, ring_all_gather_of_256_mib_over_8_lone_h100_takes_5000_us);
    tcase_add_test(numbers, collnet_direct_crosses_the_network_once);
    tcase_add_test(numbers, collnet_chain_goes_through_the_ranks_of_a_node_and_back);
    tcase_add_test(numbers, hops_that_cross_rails_go_over_nvlink_first);
    tcase_add_test(numbers, nvls_over_nodes_adds_one_hop_and_is_as_fast_as_the_nics);
    tcase_add_test(numbers, with_sharp_an_all_reduce_of_1_mib_over_16_nodes_is_nvls);
    tcase_add_test(numbers,
                   nvls_tree_bus_bandwidth_is_within_2_percent_of_that_measured_on_2_h100_nodes);
    tcase_add_test(numbers, a_broadcast_streams_in_a_node_and_hops_from_rank_to_rank_between_nodes);
    tcase_add_test(numbers, a_tree_waits_for_the_fullest_node);
    tcase_add_test(numbers, a_send_uses_all_channels_of_the_link_it_crosses);
    tcase_add_test(numbers, calibration_applies_to_a_send);
    tcase_add_test(numbers, an_all_to_all_leaves_a_rank_its_own_part);
    tcase_add_test(numbers, calibration_applies_to_an_all_to_all);
    tcase_add_test(numbers, nvls_bus_bandwidth_is_within_1_percent_of_that_measured_on_8_h200);
    tcase_add_test(numbers, on_8_h100_the_choice_turns_from_ring_ll_to_nvls_between_1_and_2_mib);
    tcase_add_test(numbers, times_agree_with_a_separate_port_of_nccls_model);

    TCase *measured = tcase_create("measured");
    tcase_add_test(measured, a_measured_size_takes_the_measured_time);
    tcase_add_test(measured, between_two_measured_sizes_log_time_is_linear_in_log_size);
    tcase_add_test(measured, beyond_the_measured_sizes_the_model_is_scaled_to_meet_the_ends);
    tcase_add_test(measured, a_curve_is_of_one_collective_and_leaves_nccls_choice_alone);

    Suite *s = suite_create("sim/cost/collective");
    suite_add_tcase(s, algos);
    suite_add_tcase(s, choice);
    suite_add_tcase(s, ring);
    suite_add_tcase(s, enabled);
    suite_add_tcase(s, numbers);
    suite_add_tcase(s, measured);
    return s;
}

TEST_MAIN(suite)
