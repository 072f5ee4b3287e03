
#include "base/file.h"
#include "sim/cost/datafile.h"
#include "tests/sim/cost/wires.h"
#include "tests/sim/machine.h"
#include "tests/testing.h"

#include <limits.h>
#include <stdlib.h>

/* NVLink has 24 channels of 15 GB/s; NVSwitch has 8 further channels for reductions in the switch.
 */
START_TEST(tensor_ranks_of_a_node_communicate_over_nvlink)
{
    machine_load("dgx-h100", 64);
    struct comm_group group = group_at(&machine, 1, 8);
    ck_assert_int_eq(group.num_nodes, 1);
    ck_assert_int_eq(group.intra, LINK_NVLINK);
    ck_assert_double_eq_tol(inside_gb_per_s(&group), 360, 1e-9);
    ck_assert(group.in_network);
    ck_assert_int_eq(group.nvls_channels, 8);
    ck_assert(group.ll128);
}
END_TEST

/* The bandwidth of a group of `size` ranks at distance `stride`, within a node or between nodes. */
static const struct {
    const char *cluster;
    int num_gpus, stride, size, num_nodes;
    int num_channels; /* 0 if the number of channels is not checked */
    double gb_per_s;
} rates[] = {
    /* Each of two sockets has 4 GPUs. A ring of GPUs below one socket has 20 GB/s, and a ring over
     * both sockets has 12.5 GB/s. Two rings (of every second GPU) or four (of every fourth) share
     * the 18.9 GB/s of the link between the sockets. */
    { "a100-pcie-8", 8, 1, 4, 1, 2, 20 },
    { "a100-pcie-8", 8, 1, 8, 1, 2, 12.5 },
    { "a100-pcie-8", 8, 2, 4, 1, 2, 18.9 / 2 },
    { "a100-pcie-8", 8, 4, 2, 1, 2, 18.9 / 4 },
    /* NVSwitch gives any of a node's GPUs its whole rate. */
    { "dgx-h100", 64, 1, 4, 1, 0, 360 },
    { "dgx-h100", 64, 2, 4, 1, 0, 360 },
    /* tp 8 fills a node, so a data group has one rank per node, with one of 8 NICs of 24 GB/s.
     */
    { "dgx-a100-80g", 128, 8, 16, 16, 2, 24 },
    /* With tp 2, four ranks of a data group are on one node and use 4 of its NICs. */
    { "dgx-a100-80g", 128, 2, 16, 4, 0, 96 },
    /* A ring uses all 8 NICs, as NCCL's topology search finds for DGX A100. */
    { "dgx-a100-80g", 128, 1, 128, 16, 8, 192 },
    /* Pods have 384 nodes. Between pods a node has a seventh of its bandwidth within a pod. */
    { "dgx-a100-80g-over7", 6144, 8, 384, 384, 0, 24 },
    /* A ring over both pods leaves each pod once, over 1 of the 384 NICs of a rail. */
    { "dgx-a100-80g-over7", 6144, 8, 768, 768, 0, 24 },
    /* Neighbours in the group are half a pod apart, so half of a pod's NICs send to the other pod.
     * If neighbours were a whole pod apart, all NICs would send. */
    { "dgx-a100-80g-over7", 6144, 1536, 4, 4, 0, 24 / 3.5 },
    { "dgx-a100-80g-over7", 6144, 3072, 2, 2, 0, 24 / 7.0 },
    /* Racks have 2 nodes, and pods have 192 racks. Collisions of flows in the network leave 0.8 of
     * a NIC's 48 GB/s. */
    { "meta-grand-teton-700w", 6144, 8, 2, 2, 0, 38.4 },
    { "meta-grand-teton-700w", 6144, 8, 384, 384, 0, 38.4 },
    { "meta-grand-teton-700w", 6144, 3072, 2, 2, 0, 38.4 / 7.0 },
    /* A node has 8 NICs of 48 GB/s, of which collisions in the network leave 0.8. */
    { "meta-grand-teton", 64, 1, 64, 8, 0, 307.2 },
    /* Each of 8 ranks has half of one of 4 NICs of 12 GB/s. */
    { "p4d-a100-40g", 64, 8, 8, 8, 0, 6 },
    { "p4d-a100-40g", 64, 1, 64, 8, 0, 48 },
    /* A NIC carries 48 GB/s. NVLink carries 7 of a ring's 8 hops in a node, and has only 16 x 10
     * GB/s here. On DGX H100 it has 24 x 15 GB/s, so there the NICs are the limit, with 8 x 48
     * GB/s. */
    { "h800-8", 64, 1, 64, 8, 0, 160 * 8 / 7.0 },
    { "h800-8", 64, 8, 8, 8, 0, 48 },
    { "dgx-h100", 64, 1, 64, 8, 0, 384 },
    /* In this mesh a GPU has 7 links of 64 GB/s, one to each other GPU. Each of four ranks uses 3
       links, each of two ranks uses one. */
    { "mi300x-8", 64, 1, 8, 1, 0, 448 },
    { "mi300x-8", 64, 1, 4, 1, 0, 192 },
    { "mi300x-8", 64, 4, 2, 1, 0, 64 },
    { "mi355x-8", 64, 2, 4, 1, 0, 230.4 },
    /* Two of a node's 8 ranks have one link of 64 GB/s between them, which both hops of their rings
     * use. Their 2 NICs of 48 GB/s are the limit. */
    { "mi300x-8", 64, 4, 16, 8, 0, 96 },
};

START_TEST(groups_have_the_bandwidth_of_their_links)
{
    machine_load(rates[_i].cluster, rates[_i].num_gpus);
    struct comm_group group = group_at(&machine, rates[_i].stride, rates[_i].size);
    bool is_inside = rates[_i].num_nodes == 1;
    ck_assert_int_eq(group.num_ranks, rates[_i].size);
    ck_assert_int_eq(group.num_nodes, rates[_i].num_nodes);
    double gb_per_s = is_inside ? inside_gb_per_s(&group) : between_gb_per_s(&group);
    ck_assert_double_eq_tol(gb_per_s, rates[_i].gb_per_s, 1e-9);
    if (rates[_i].num_channels > 0)
        ck_assert_int_eq(group.num_channels, rates[_i].num_channels);
}
END_TEST

/* In an all-to-all of 8 GPUs, each of the 4 GPUs of a socket sends half of its bytes to the other
 * socket, over the one link. SimuMax measured 8.26 GB/s, counting only the 7/8 of the bytes that
 * leave a GPU.
 */
START_TEST(an_all_to_all_between_sockets_shares_their_link)
{
    machine_load("a100-pcie-8", 8);
    struct comm_group group = group_at(&machine, 1, 8), below = group_at(&machine, 1, 4);
    double bytes = 800e6;
    ck_assert_double_eq_tol(all_to_all_s(&group, bytes), 4 * bytes / 2 / 18.9e9, 1e-4);
    ck_assert_double_eq_tol(bytes * 7 / 8 / all_to_all_s(&group, bytes) / 8.26e9, 1, 0.01);
    ck_assert_double_eq_tol(all_to_all_s(&below, bytes), bytes * 3 / 4 / 20e9, 1e-4);
}
END_TEST

/* Neighbouring stages of 4 ranks are below different sockets, so 4 pairs share the link. */
START_TEST(pairs_of_stages_share_the_link_between_sockets)
{
    machine_load("a100-pcie-8", 8);
    struct rank_group stages = { .sets = { { .stride = 4, .size = 2 } },
                                 .num_sets = 1,
                                 .num_ranks = 8 };
    struct comm_group pair = network_pair(&machine, &stages, false);
    ck_assert_double_eq_tol(inside_gb_per_s(&pair), 18.9 / 4, 1e-9);
}
END_TEST

START_TEST(a_rack_on_one_switch_is_one_node_of_several_hosts)
{
    machine_load("gb200-nvl72", 144);
    ck_assert_int_eq(cluster_node_size(&machine.cluster), 72);
    ck_assert_int_eq(cluster_host_size(&machine.cluster), 4);
    struct comm_group inside = group_at(&machine, 1, 64);
    ck_assert_int_eq(inside.num_nodes, 1);
    ck_assert_double_eq_tol(inside_gb_per_s(&inside), 720, 1e-9);
    struct comm_group apart = group_at(&machine, 72, 2);
    ck_assert_int_eq(apart.num_nodes, 2);
    ck_assert_double_eq_tol(between_gb_per_s(&apart), 48, 1e-9);
}
END_TEST

/* Jobs of 256, 144 and 96 GPUs use 4 x 64, 2 x 72 and 2 x 48 GPUs of racks. 76 GPUs are not split
 * as 19 x 4, which would use less than half of each rack, and nodes of one host are not divided. */
START_TEST(a_job_uses_equally_many_gpus_of_each_rack)
{
    machine_load("gb200-nvl72", 256);
    ck_assert_int_eq(cluster_node_size(&machine.cluster), 64);
    system_release(&machine);
    machine_load("gb200-nvl72", 64);
    ck_assert_int_eq(cluster_node_size(&machine.cluster), 72);
    ck_assert_int_eq(cluster_node_share(&machine.cluster, 144), 72);
    ck_assert_int_eq(cluster_node_share(&machine.cluster, 96), 48);
    ck_assert_int_eq(cluster_node_share(&machine.cluster, 76), 72);
    system_release(&machine);
    machine_load("dgx-h100", 12);
    ck_assert_int_eq(cluster_node_size(&machine.cluster), 8);
}
END_TEST

/* In a node a ring has 2 channels of 6.25 GB/s. Between nodes 2 channels of 12 GB/s share the one
 * NIC of 8 GPUs, so each GPU has 3 GB/s. */
START_TEST(gpus_without_nvlink_communicate_over_pcie)
{
    machine_load("a100-pcie-8", 64);
    struct comm_group node = group_at(&machine, 1, 8);
    ck_assert_int_eq(node.intra, LINK_PCI);
    ck_assert(!node.ll128);
    ck_assert(!node.in_network);
    ck_assert_double_eq_tol(inside_gb_per_s(&node), 12.5, 1e-9);
    struct comm_group apart = group_at(&machine, 8, 8);
    ck_assert_int_eq(apart.intra, LINK_PCI);
    ck_assert_double_eq_tol(between_gb_per_s(&apart), 2 * 12 * 0.125, 1e-9);
}
END_TEST

/* By the datasheet a ring has the bandwidth of a node's NICs minus collisions, or that of the links
 * inside a node if it is lower (7 of the 8 hops of 8 GPUs use them). The speeds in NCCL's tables
 * are up to a tenth lower. No group here has ranks in two blocks of 16 nodes, between which
 * networks are oversubscribed. */
static void check_rings_have_the_nics(const char *name)
{
    machine_load(name, 16);
    const struct cluster *cluster = &machine.cluster;
    const struct level *net = &cluster->levels[1];
    int node_size = cluster->levels[0].size;
    struct comm_group alone = group_at(&machine, node_size, 8);
    struct comm_group all = group_at(&machine, 1, 8 * node_size);
    struct comm_group inside = group_at(&machine, 1, node_size);
    double nics = net->nics_per_gpu * net->bytes_per_s * net->efficiency / 1e9;
    double through = inside_gb_per_s(&inside) * node_size / (node_size - 1.0);
    double whole = fmin(node_size * nics, through);
    ck_assert_msg(
        between_gb_per_s(&alone) <= nics * (1 + 1e-9) && between_gb_per_s(&alone) >= 0.9 * nics,
        "%s: a ring between nodes has %g of %g GB/s", name, between_gb_per_s(&alone), nics);
    ck_assert_msg(
        between_gb_per_s(&all) <= whole * (1 + 1e-9) && between_gb_per_s(&all) >= 0.9 * whole,
        "%s: a ring between nodes has %g of %g GB/s", name, between_gb_per_s(&all), whole);
    machine_release();
}

START_TEST(rings_over_nodes_reach_the_bandwidth_of_their_nics)
{
    char folder[PATH_MAX];
    size_t count;
    ck_assert(file_data_folder(cluster_files.folder, folder, sizeof folder));
    char **names = file_list_json(folder, &count);
    ck_assert_uint_gt(count, 0);
    for (size_t i = 0; i < count; i++) {
        check_rings_have_the_nics(names[i]);
        free(names[i]);
    }
    free(names);
}
END_TEST

/* The 8 NICs of 48 GB/s are shared out over 8 channels of NVLS. */
START_TEST(switches_that_reduce_allow_sharp_for_groups_over_nodes)
{
    machine_load("dgx-h100", 256);
    ck_assert(!group_at(&machine, 1, 256).sharp);
    machine.cluster.levels[1].in_network_reduction = true;
    struct comm_group all = group_at(&machine, 1, 256);
    ck_assert(all.sharp);
    ck_assert(all.in_network);
    ck_assert_double_eq_tol(all.nvls_channels * all.nvls_inter_bytes_per_s / 1e9, 384, 1e-9);
    ck_assert(!group_at(&machine, 1, 8).sharp);
    ck_assert(group_at(&machine, 8, 32).sharp);
}
END_TEST

/* A reduction that leaves the first level of the network also needs the switches of the next level.
 */
START_TEST(one_network_level_without_reduction_disables_sharp)
{
    machine_load("dgx-h100", 256);
    struct cluster *cluster = &machine.cluster;
    cluster->levels[1].in_network_reduction = true;
    cluster->levels[1].size = 4;
    cluster->levels[2] = cluster->levels[1];
    cluster->levels[2].in_network_reduction = false;
    cluster->num_levels = 3;
    ck_assert(group_at(&machine, 8, 4).sharp);
    ck_assert(!group_at(&machine, 8, 8).sharp);
}
END_TEST

START_TEST(a_groups_calibration_factors_are_those_of_its_links)
{
    machine_load("dgx-a100-80g", 64);
    struct comm_group inside = group_at(&machine, 1, 8);
    struct comm_group between = group_at(&machine, 8, 8);
    ck_assert_double_eq(inside.bandwidth_factor, machine.profile.intra_bandwidth_factor);
    ck_assert_double_eq(inside.latency_factor, machine.profile.intra_latency_factor);
    ck_assert_double_eq(between.bandwidth_factor, machine.profile.inter_bandwidth_factor);
    ck_assert_double_eq(between.latency_factor, machine.profile.inter_latency_factor);
    ck_assert(!between.in_network);
}
END_TEST

/* The curves are vTrain's measurements on a DGX-1. Two neighbouring GPUs have a single NVLink
 * between them. It is slower than the measured ring of all 8 GPUs, which uses several links per
 * GPU. */
START_TEST(a_groups_curve_is_that_of_its_size_and_fabric)
{
    machine_load("dgx1-v100", 64);
    struct comm_group two = group_at(&machine, 1, 2);
    struct comm_group three = group_at(&machine, 1, 3);
    struct comm_group over = group_at(&machine, 8, 2);
    ck_assert_ptr_nonnull(two.curves[COLLECTIVE_ALL_REDUCE]);
    ck_assert_ptr_null(two.curves[COLLECTIVE_ALL_GATHER]);
    ck_assert_ptr_null(three.curves[COLLECTIVE_ALL_REDUCE]);
    ck_assert_ptr_null(over.curves[COLLECTIVE_ALL_REDUCE]);
    double measured_s = collective_s(&two, COLLECTIVE_ALL_REDUCE, 1 << 30);
    ck_assert_double_eq_tol(measured_s / 47617e-6, 1, 1e-3);
    machine_release();
    machine_load("jean-zay-v100", 64);
    ck_assert_ptr_null(group_at(&machine, 1, 2).curves[COLLECTIVE_ALL_REDUCE]);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("network");
    tcase_add_checked_fixture(tc, NULL, machine_release);
    tcase_add_test(tc, tensor_ranks_of_a_node_communicate_over_nvlink);
    tcase_add_loop_test(tc, groups_have_the_bandwidth_of_their_links, 0, LENGTH(rates));
    tcase_add_test(tc, an_all_to_all_between_sockets_shares_their_link);
    tcase_add_test(tc, pairs_of_stages_share_the_link_between_sockets);
    tcase_add_test(tc, a_rack_on_one_switch_is_one_node_of_several_hosts);
    tcase_add_test(tc, a_job_uses_equally_many_gpus_of_each_rack);
    tcase_add_test(tc, gpus_without_nvlink_communicate_over_pcie);
    tcase_add_test(tc, rings_over_nodes_reach_the_bandwidth_of_their_nics);
    tcase_add_test(tc, switches_that_reduce_allow_sharp_for_groups_over_nodes);
    tcase_add_test(tc, one_network_level_without_reduction_disables_sharp);
    tcase_add_test(tc, a_groups_calibration_factors_are_those_of_its_links);
    tcase_add_test(tc, a_groups_curve_is_that_of_its_size_and_fabric);
    Suite *s = suite_create("sim/cost/network");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
