
#include "sim/plan/axis.h"
#include "sim/plan/group.h"
#include "tests/sim/cost/wires.h"
#include "tests/sim/machine.h"
#include "tests/testing.h"

static struct plan degrees(int tp, int dp, int pp)
{
    struct plan plan = plan_default();
    plan.tp = tp;
    plan.dp = dp;
    plan.pp = pp;
    return plan;
}

static bool crosses(const struct plan *plan, int stage)
{
    struct rank_group stages = plan_group(plan, PIPELINE_RANKS);
    return network_boundary_crosses(&machine, &stages, stage);
}

START_TEST(the_stride_of_an_axis_is_the_product_of_faster_axes)
{
    machine_load("dgx-h100", 64);
    struct plan plan = degrees(4, 8, 2);
    ck_assert_int_eq(network_plan_group(&machine, &plan, TENSOR_RANKS).num_nodes, 1);
    struct comm_group data = network_plan_group(&machine, &plan, replicated_axes());
    ck_assert_int_eq(data.num_ranks, 8);
    ck_assert_int_eq(data.num_nodes, 4); /* 2 ranks per node */
    ck_assert_double_eq_tol(between_gb_per_s(&data), 96, 1e-9);
}
END_TEST

/* With tp 4 and cp 4 two ranks of a context group share a node, and its rings leave the node by one
 * NIC. */
START_TEST(context_ranks_are_one_tensor_group_apart)
{
    machine_load("dgx-h100", 64);
    struct plan plan = degrees(4, 4, 1);
    plan.cp = 4;
    struct comm_group context = network_plan_group(&machine, &plan, CONTEXT_RANKS);
    struct comm_group pair = axis_pair(&machine, &plan, CONTEXT_RANKS);
    ck_assert_int_eq(context.num_ranks, 4);
    ck_assert_int_eq(context.num_nodes, 2);
    ck_assert_double_eq_tol(between_gb_per_s(&context), 96, 1e-9);
    ck_assert_int_eq(pair.num_nodes, 2);
    ck_assert_double_eq_tol(between_gb_per_s(&pair), 48, 1e-9);
    plan.cp = 2;
    plan.dp = 8;
    ck_assert_int_eq(axis_pair(&machine, &plan, CONTEXT_RANKS).num_nodes, 1);
}
END_TEST

/* Gradients are summed over the same ranks as without context ranks. */
START_TEST(data_groups_include_context_ranks)
{
    machine_load("dgx-h100", 64);
    for (int tp = 1; tp <= 8; tp *= 2)
        for (int cp = 1; cp <= 64 / tp; cp *= 2) {
            struct plan plan = degrees(tp, 64 / tp / cp, 1);
            struct plan without = degrees(tp, 64 / tp, 1);
            plan.cp = cp;
            struct comm_group group = network_plan_group(&machine, &plan, replicated_axes());
            struct comm_group same = network_plan_group(&machine, &without, replicated_axes());
            ck_assert_int_eq(group.num_ranks, 64 / tp);
            ck_assert_int_eq(group.num_nodes, same.num_nodes);
            ck_assert_double_eq(between_gb_per_s(&group), between_gb_per_s(&same));
        }
}
END_TEST

/* With order=dp-tp-cp, 8 data ranks fill a node. The peers of a context group are 4 nodes apart. */
START_TEST(with_another_order_data_and_context_ranks_are_apart)
{
    machine_load("dgx-h100", 64);
    struct plan plan = degrees(4, 8, 1);
    plan.cp = 2;
    static const int order[MAX_AXES] = { AXIS_EXPERT, AXIS_DATA, AXIS_TENSOR, AXIS_CONTEXT,
                                         AXIS_PIPELINE };
    for (int i = 0; i < MAX_AXES; i++)
        plan.order[i] = order[i];
    struct comm_group group = network_plan_group(&machine, &plan, replicated_axes());
    ck_assert_int_eq(group.num_ranks, 16);
    ck_assert_int_eq(group.num_nodes, 2);
    ck_assert_double_eq_tol(between_gb_per_s(&group), 8 * 48, 1e-9);
}
END_TEST

/* 64 data ranks form shard groups of 8, one group per node. The replicas of a shard are on one rank
 * per node, each with a NIC. */
START_TEST(shards_within_a_node_are_replicated_on_every_node)
{
    machine_load("dgx-h100", 64);
    struct plan plan = degrees(1, 64, 1);
    plan.zero = 3;
    plan.shard = 8;
    struct data_groups groups = network_data_groups(&machine, &plan);
    ck_assert_int_eq(groups.shard.num_ranks, 8);
    ck_assert_int_eq(groups.shard.num_nodes, 1);
    ck_assert_int_eq(groups.replicas.num_ranks, 8);
    ck_assert_int_eq(groups.replicas.num_nodes, 8);
    ck_assert_double_eq_tol(between_gb_per_s(&groups.replicas), 48, 1e-9);
    plan.shard = 0;
    groups = network_data_groups(&machine, &plan);
    ck_assert_int_eq(groups.shard.num_ranks, 64);
    ck_assert_int_eq(groups.replicas.num_ranks, 1);
}
END_TEST

/* With tp 2, cp 2 and shard=4, a shard group has both context ranks of two data ranks, which fill a
 * node. The shards are replicated on 4 nodes. */
START_TEST(shard_groups_include_context_ranks_first)
{
    machine_load("dgx-h100", 32);
    struct plan plan = degrees(2, 8, 1);
    plan.cp = 2;
    plan.zero = 1;
    plan.shard = 4;
    struct data_groups groups = network_data_groups(&machine, &plan);
    ck_assert_int_eq(groups.shard.num_nodes, 1);
    ck_assert_int_eq(groups.replicas.num_ranks, 4);
    ck_assert_int_eq(groups.replicas.num_nodes, 4);
    plan.shard = 1;
    groups = network_data_groups(&machine, &plan);
    ck_assert_int_eq(groups.shard.num_ranks, 1);
    ck_assert_int_eq(groups.replicas.num_ranks, 16);
    ck_assert_int_eq(groups.replicas.num_nodes, 4);
}
END_TEST

/* With tp 3 on nodes of 8 GPUs, ranks 0 to 2 are on one node, but ranks 6 to 8 are on two. All
 * groups wait for the slowest one. */
START_TEST(a_group_that_any_node_boundary_divides_crosses_nodes)
{
    machine_load("dgx-h100", 24);
    struct plan plan = degrees(3, 8, 1);
    ck_assert_int_eq(network_plan_group(&machine, &plan, TENSOR_RANKS).num_nodes, 2);
}
END_TEST

START_TEST(messages_between_stages_of_one_node_stay_inside)
{
    machine_load("dgx-h100", 64);
    struct plan plan = degrees(2, 1, 4);
    ck_assert_int_eq(axis_pair(&machine, &plan, PIPELINE_RANKS).num_nodes, 1);
}
END_TEST

/* Stages have 4 GPUs. Stages 0 and 1 share a node, stages 1 and 2 do not. Each rank has one NIC of
 * 48 GB/s. */
START_TEST(one_stage_boundary_between_nodes_makes_messages_cross)
{
    machine_load("dgx-h100", 16);
    struct plan plan = degrees(4, 1, 4);
    struct comm_group pair = axis_pair(&machine, &plan, PIPELINE_RANKS);
    ck_assert_int_eq(pair.num_ranks, 2);
    ck_assert_int_eq(pair.num_nodes, 2);
    ck_assert_double_eq_tol(between_gb_per_s(&pair), 48, 1e-9);
}
END_TEST

/* With 4 stages of 4 GPUs, messages leave a node between stages 1 and 2, and from the last stage to
 * the first. With stages of 6 GPUs, some rank's messages leave it at each boundary. With stages of
 * whole nodes all messages leave the node, and with all stages in one node none does. */
START_TEST(a_stage_boundary_crosses_nodes_at_the_end_of_a_node)
{
    machine_load("dgx-h100", 16);
    struct plan halves = degrees(4, 1, 4), sixths = degrees(6, 1, 4), nodes = degrees(8, 1, 3);
    struct plan inside = degrees(2, 1, 4), pairs = degrees(2, 1, 8);
    for (int stage = 0; stage < 8; stage++) /* with stages of 2 GPUs, the messages of every
                                             * fourth stage leave the node */
        ck_assert_int_eq(crosses(&pairs, stage), stage % 4 == 3);
    for (int stage = 0; stage < 4; stage++) {
        ck_assert_int_eq(crosses(&halves, stage), stage % 2);
        ck_assert(crosses(&sixths, stage));
        ck_assert(!crosses(&inside, stage));
    }
    for (int stage = 0; stage < 3; stage++)
        ck_assert(crosses(&nodes, stage));
    ck_assert_int_eq(pair_of(&machine, &halves, PIPELINE_RANKS, false).num_nodes, 1);
    ck_assert_int_eq(pair_of(&machine, &halves, PIPELINE_RANKS, true).num_nodes, 2);
}
END_TEST

/* With order=tp-pp-dp the stages of one replica fill a node. */
START_TEST(stages_that_come_before_data_ranks_share_a_node)
{
    machine_load("dgx-h100", 64);
    struct plan plan = degrees(2, 8, 4);
    ck_assert_int_eq(axis_pair(&machine, &plan, PIPELINE_RANKS).num_nodes, 2);
    static const int order[MAX_AXES] = { AXIS_TENSOR, AXIS_CONTEXT, AXIS_PIPELINE, AXIS_EXPERT,
                                         AXIS_DATA };
    for (int i = 0; i < MAX_AXES; i++)
        plan.order[i] = order[i];
    ck_assert_int_eq(axis_pair(&machine, &plan, PIPELINE_RANKS).num_nodes, 1);
}
END_TEST

/* With order=tp-pp-dp and replicas of 12 GPUs, the stages of the second replica lie on two nodes.
 */
START_TEST(if_any_replicas_stages_cross_nodes_messages_cross)
{
    machine_load("dgx-h100", 24);
    struct plan plan = degrees(2, 4, 3);
    static const int order[MAX_AXES] = { AXIS_TENSOR, AXIS_CONTEXT, AXIS_PIPELINE, AXIS_EXPERT,
                                         AXIS_DATA };
    for (int i = 0; i < MAX_AXES; i++)
        plan.order[i] = order[i];
    ck_assert_int_eq(axis_pair(&machine, &plan, PIPELINE_RANKS).num_nodes, 2);
}
END_TEST

/* Switches form blocks of 16 nodes. Four stages of 8 nodes each do not fit in a block, two stages
 * do. With four, half of a block's NICs send out of it. */
START_TEST(a_pipeline_that_leaves_a_block_is_oversubscribed)
{
    machine_load("dgx-a100-80g-over7", 512);
    machine.cluster.levels[1].size = 16;
    struct plan two_stages = degrees(8, 8, 2);
    struct plan four_stages = degrees(8, 8, 4);
    struct comm_group inside = axis_pair(&machine, &two_stages, PIPELINE_RANKS);
    struct comm_group outside = axis_pair(&machine, &four_stages, PIPELINE_RANKS);
    ck_assert_double_eq_tol(between_gb_per_s(&inside), 24, 1e-9);
    ck_assert_double_eq_tol(between_gb_per_s(&outside), 24 / 3.5, 1e-9);
}
END_TEST

/* Blocks have 16 nodes, and their uplinks are too narrow for a single NIC. If groups have 12 nodes,
 * the second group is on nodes 12 to 23 and crosses the end of a block. Two groups of 8 nodes fit
 * in a block, and so does a single group of 12. */
START_TEST(a_group_that_any_block_boundary_divides_is_oversubscribed)
{
    machine_load("dgx-a100-80g-over7", 192);
    machine.cluster.levels[1].size = 16;
    machine.cluster.levels[1].oversubscription = 7 * 16;
    struct plan cut = degrees(8, 12, 2), fits = degrees(8, 8, 3), alone = degrees(8, 12, 1);
    struct comm_group data = network_plan_group(&machine, &cut, replicated_axes());
    ck_assert_double_eq_tol(between_gb_per_s(&data), 24 / 7.0, 1e-9);
    data = network_plan_group(&machine, &fits, replicated_axes());
    ck_assert_double_eq_tol(between_gb_per_s(&data), 24, 1e-9);
    data = network_plan_group(&machine, &alone, replicated_axes());
    ck_assert_double_eq_tol(between_gb_per_s(&data), 24, 1e-9);
}
END_TEST

/* Nodes have one GPU, and blocks have 16 nodes. The sixth group of 3 is on nodes 15 to 17, so it
 * crosses a block. */
START_TEST(one_rank_in_another_block_makes_a_group_cross_blocks)
{
    machine_load("dgx-a100-80g-over7", 192);
    machine.cluster.levels[0].size = 1;
    machine.cluster.levels[1].size = 16;
    machine.cluster.levels[1].oversubscription = 7 * 16;
    struct plan cut = degrees(1, 3, 16), fits = degrees(1, 4, 12);
    struct comm_group narrow = network_plan_group(&machine, &cut, replicated_axes());
    struct comm_group wide = network_plan_group(&machine, &fits, replicated_axes());
    ck_assert_int_eq(wide.num_nodes, 4);
    ck_assert_double_lt(narrow.inter_bytes_per_s, wide.inter_bytes_per_s / 2);
}
END_TEST

/* With tp 3 on nodes of 8 GPUs, ranks 6 and 7 are on one node, and rank 8 is on the next, whose NIC
 * has 48 GB/s. With tp 12 a group has 8 ranks on one node and 4 on the next, or 4 and 8. */
START_TEST(the_node_with_the_fewest_ranks_limits_the_rings)
{
    machine_load("dgx-h100", 24);
    struct plan three = degrees(3, 8, 1), twelve = degrees(12, 2, 1);
    struct comm_group group = network_plan_group(&machine, &three, TENSOR_RANKS);
    ck_assert_double_eq_tol(between_gb_per_s(&group), 48, 1e-9);
    group = network_plan_group(&machine, &twelve, TENSOR_RANKS);
    ck_assert_double_eq_tol(between_gb_per_s(&group), 4 * 48, 1e-9);
}
END_TEST

/* Members have the same place in every node when they are 2 or whole nodes apart, but not when they
 * are 3 apart or a node boundary cuts the group. */
START_TEST(groups_not_aligned_with_nodes_cross_rails)
{
    machine_load("dgx-h100", 48);
    ck_assert(!group_at(&machine, 8, 6).crosses_rails);
    ck_assert(!group_at(&machine, 2, 24).crosses_rails);
    ck_assert(group_at(&machine, 3, 16).crosses_rails);
    ck_assert(!group_at(&machine, 3, 2).crosses_rails); /* groups within a node never cross rails */
    struct plan cut = degrees(3, 16, 1), whole = degrees(8, 6, 1);
    ck_assert(network_plan_group(&machine, &cut, TENSOR_RANKS).crosses_rails);
    ck_assert(!network_plan_group(&machine, &whole, replicated_axes()).crosses_rails);
}
END_TEST

/* Stages of 8 GPUs are on one rail; with stages of 4, the second sends from places 4-7 to places
 * 0-3. */
START_TEST(stages_less_than_a_node_apart_cross_rails_between_nodes)
{
    machine_load("dgx-h100", 32);
    struct plan apart = degrees(8, 1, 4), near = degrees(4, 1, 8), inside = degrees(4, 1, 2);
    ck_assert(!axis_pair(&machine, &apart, PIPELINE_RANKS).crosses_rails);
    ck_assert(axis_pair(&machine, &near, PIPELINE_RANKS).crosses_rails);
    ck_assert(!axis_pair(&machine, &inside, PIPELINE_RANKS).crosses_rails);
}
END_TEST

START_TEST(without_nvlink_no_hop_to_another_rail_is_added)
{
    machine_load("a100-pcie-8", 32);
    struct plan near = degrees(4, 1, 8);
    ck_assert(!axis_pair(&machine, &near, PIPELINE_RANKS).crosses_rails);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("network");
    tcase_add_checked_fixture(tc, NULL, machine_release);
    tcase_add_test(tc, the_stride_of_an_axis_is_the_product_of_faster_axes);
    tcase_add_test(tc, context_ranks_are_one_tensor_group_apart);
    tcase_add_test(tc, data_groups_include_context_ranks);
    tcase_add_test(tc, with_another_order_data_and_context_ranks_are_apart);
    tcase_add_test(tc, shards_within_a_node_are_replicated_on_every_node);
    tcase_add_test(tc, shard_groups_include_context_ranks_first);
    tcase_add_test(tc, a_group_that_any_node_boundary_divides_crosses_nodes);
    tcase_add_test(tc, messages_between_stages_of_one_node_stay_inside);
    tcase_add_test(tc, one_stage_boundary_between_nodes_makes_messages_cross);
    tcase_add_test(tc, a_stage_boundary_crosses_nodes_at_the_end_of_a_node);
    tcase_add_test(tc, stages_that_come_before_data_ranks_share_a_node);
    tcase_add_test(tc, if_any_replicas_stages_cross_nodes_messages_cross);
    tcase_add_test(tc, a_pipeline_that_leaves_a_block_is_oversubscribed);
    tcase_add_test(tc, a_group_that_any_block_boundary_divides_is_oversubscribed);
    tcase_add_test(tc, one_rank_in_another_block_makes_a_group_cross_blocks);
    tcase_add_test(tc, the_node_with_the_fewest_ranks_limits_the_rings);
    tcase_add_test(tc, groups_not_aligned_with_nodes_cross_rails);
    tcase_add_test(tc, stages_less_than_a_node_apart_cross_rails_between_nodes);
    tcase_add_test(tc, without_nvlink_no_hop_to_another_rail_is_added);
    Suite *s = suite_create("sim/cost/network: plans");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
