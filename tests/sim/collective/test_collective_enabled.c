#include "sim/collective/collective.h"

#include "tests/sim/collective/nccl_groups.h"
#include "tests/testing.h"

/* Tests for which groups an algorithm is available: those for which NCCL would consider it. */

START_TEST(ll128_needs_links_with_atomic_128_byte_stores)
{
    struct comm_group group = nccl_groups[H100_NODE];
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
    const struct comm_group good = nccl_groups[H100_NODE];
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
    ck_assert(is_available("nvls", &nccl_groups[SHARP_2_NODES], COLLECTIVE_ALL_REDUCE));
    ck_assert(is_available("nvls", &nccl_groups[SHARP_2_NODES], COLLECTIVE_ALL_GATHER));
    ck_assert(!is_available("nvls", &two_ranks, COLLECTIVE_ALL_REDUCE));
}
END_TEST

/* Reductions in switches (CollNet and NVLS) move whole buffers, so they are not used with NCCL's
 * low-latency protocols. */
START_TEST(reductions_in_switches_need_the_simple_protocol)
{
    static const char *const names[] = { "collnet_direct", "collnet_chain", "nvls" };
    const struct comm_group *group = &nccl_groups[SHARP_2_NODES];
    for (int i = 0; i < LENGTH(names); i++) {
        const struct collective_algo *algo = collective_algo_find(names[i]);
        ck_assert(algo->available(group, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE));
        ck_assert(!algo->available(group, COLLECTIVE_ALL_REDUCE, PROTOCOL_LL));
        ck_assert(!algo->available(group, COLLECTIVE_ALL_REDUCE, PROTOCOL_LL128));
    }
}
END_TEST

START_TEST(nvls_gathers_and_scatters_over_at_most_32_ranks)
{
    struct comm_group nvl72 = nccl_groups[B200_NODE];
    nvl72.num_ranks = 72;
    ck_assert(is_available("nvls", &nvl72, COLLECTIVE_ALL_REDUCE));
    ck_assert(!is_available("nvls", &nvl72, COLLECTIVE_ALL_GATHER));
    ck_assert(!is_available("nvls", &nvl72, COLLECTIVE_REDUCE_SCATTER));
}
END_TEST

START_TEST(nvls_tree_is_for_all_reduce_over_several_nodes)
{
    ck_assert(is_available("nvls_tree", &nccl_groups[H100_2_NODES], COLLECTIVE_ALL_REDUCE));
    ck_assert(!is_available("nvls_tree", &nccl_groups[H100_2_NODES], COLLECTIVE_ALL_GATHER));
    ck_assert(!is_available("nvls_tree", &nccl_groups[H100_NODE], COLLECTIVE_ALL_REDUCE));
    ck_assert(!is_available("nvls_tree", &nccl_groups[A100_128_NODES], COLLECTIVE_ALL_REDUCE));
}
END_TEST

START_TEST(pat_gathers_and_scatters_with_one_rank_per_node)
{
    ck_assert(is_available("pat", &nccl_groups[H100_8_ALONE], COLLECTIVE_ALL_GATHER));
    ck_assert(is_available("pat", &nccl_groups[H100_8_ALONE], COLLECTIVE_REDUCE_SCATTER));
    ck_assert(!is_available("pat", &nccl_groups[H100_8_ALONE], COLLECTIVE_ALL_REDUCE));
    ck_assert(!is_available("pat", &nccl_groups[H100_16_NODES], COLLECTIVE_ALL_GATHER));
}
END_TEST

START_TEST(collnet_needs_sharp_several_nodes_and_at_most_8_ranks_in_each)
{
    struct comm_group good = nccl_groups[SHARP_16_NODES];
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

START_TEST(sharp_gathers_and_scatters_only_with_one_nic_per_rank)
{
    ck_assert(is_available("collnet_direct", &nccl_groups[SHARP_16_NODES], COLLECTIVE_ALL_GATHER));
    ck_assert(
        is_available("collnet_direct", &nccl_groups[SHARP_16_NODES], COLLECTIVE_REDUCE_SCATTER));
    ck_assert(!is_available("collnet_direct", &nccl_groups[SHARP_A100], COLLECTIVE_ALL_GATHER));
    ck_assert(is_available("collnet_direct", &nccl_groups[SHARP_A100], COLLECTIVE_ALL_REDUCE));
}
END_TEST

START_TEST(an_unknown_algorithm_is_not_found)
{
    ck_assert_ptr_null(collective_algo_find("rings"));
}
END_TEST

static Suite *suite(void)
{
    TCase *enabled = tcase_create("enabled");
    tcase_add_test(enabled, ll128_needs_links_with_atomic_128_byte_stores);
    tcase_add_test(enabled,
                   nvls_needs_a_multicasting_switch_hopper_three_ranks_and_one_node_or_sharp);
    tcase_add_test(enabled, reductions_in_switches_need_the_simple_protocol);
    tcase_add_test(enabled, nvls_gathers_and_scatters_over_at_most_32_ranks);
    tcase_add_test(enabled, nvls_tree_is_for_all_reduce_over_several_nodes);
    tcase_add_test(enabled, pat_gathers_and_scatters_with_one_rank_per_node);
    tcase_add_test(enabled, collnet_needs_sharp_several_nodes_and_at_most_8_ranks_in_each);
    tcase_add_test(enabled, sharp_gathers_and_scatters_only_with_one_nic_per_rank);
    tcase_add_test(enabled, an_unknown_algorithm_is_not_found);

    Suite *s = suite_create("sim/cost/collective: what NCCL enables");
    suite_add_tcase(s, enabled);
    return s;
}

TEST_MAIN(suite)
