#include "tests/testing.h"

#include "base/arena.h"
#include "exec/comm/groups.h"
#include "sim/cost/group_links.h"
#include "sim/memory/network_memory.h"
#include "sim/plan/ranks.h"
#include "tests/sim/planned.h"

#include <stdlib.h>

static const double mib = 1024 * 1024;

static double mib_of(const char *cluster, const char *layout, int num_gpus)
{
    planned_load(cluster, "cuda", "gpt3-1.3b", num_gpus);
    planned_layout(layout);
    return network_memory_bytes(&planned.system, &planned.plan) / mib;
}

START_TEST(a_single_gpu_needs_no_buffers)
{
    ck_assert_double_eq(mib_of("dgx-h100", "mb1", 1), 0);
}
END_TEST

/* The test counts NCCL's buffers on two ranks. The communicators of the world and of the data group
 * each have 24 channels, with a ring connection and a message connection of 12 MiB each. The root
 * communicator has one such channel. */
START_TEST(two_ranks_have_a_ring_and_a_message_connection_per_channel)
{
    ck_assert_double_eq(mib_of("dgx-h100", "dp2", 2), 2 * (24 * 2 * 12) + 2 * 12);
}
END_TEST

/* On eight channels a rank has connections with the previous and the next rank, and NVLS allocates
 * 2 x 8 channels x 8 members x 1 MiB. The groups are the world, the tensor group and the
 * model-parallel group. */
START_TEST(nvls_has_buffers_for_every_member)
{
    ck_assert_double_eq(mib_of("dgx-h100", "tp8", 8), 3 * (24 * 2 * 12 + 2 * 8 * 8) + 2 * 12);
}
END_TEST

/* In groups over two nodes (the world, the data group and the root) a channel has a third
 * connection, to a rank of the other node. */
START_TEST(groups_over_nodes_have_a_third_connection)
{
    double got = mib_of("dgx-a100-80g", "dp16", 16);
    struct data_groups groups = network_data_groups(&planned.system, &planned.plan);
    ck_assert_int_eq(groups.shard.num_nodes, 2);
    ck_assert_double_eq(got, 2 * (groups.shard.num_channels * 3 * 12) + 3 * 12);
}
END_TEST

/* --- comparison with the executor's list ---------------------------------------------------- */

static int num_made; /* number of groups with several ranks */

static struct group *count_group(struct comm *comm, const int *ranks, int num_ranks,
                                 struct err *err)
{
    (void)comm, (void)ranks, (void)err;
    num_made += num_ranks > 1;
    if (num_ranks == 0)
        return NULL;
    struct group *group = arena_grow(NULL, sizeof *group);
    *group = (struct group){ .size = num_ranks };
    return group;
}

static void free_group(struct group *group)
{
    free(group);
}

static int most_groups(const struct plan *plan)
{
    static const struct comm_api counting = { .group_new = count_group, .group_free = free_group };
    struct groups groups;
    struct err err = { 0 };
    int most = 0;
    for (int rank = 0; rank < plan_ranks(plan); rank++) {
        num_made = 0;
        ck_assert(groups_new(&counting, NULL, plan, rank, &groups, &err));
        groups_free(&groups);
        most = num_made > most ? num_made : most;
    }
    return most;
}

/* In a node without a switch that reduces, every communicator has two connections per channel. */
START_TEST(every_communicator_of_the_executor_is_counted)
{
    static const char *const layouts[] = {
        "dp8",     "tp8",          "pp8",     "tp2 pp2 dp2",  "tp2 dp4",
        "pp2 dp4", "pp4 vpp2 dp2", "tp4 pp2", "pp2 vpp3 tp4",
    };
    double got = mib_of("dgx-a100-80g", layouts[_i], 8);
    ck_assert_double_eq(got, most_groups(&planned.plan) * (24 * 2 * 12) + 2 * 12);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("network_memory");
    tcase_add_checked_fixture(tc, NULL, planned_release);
    tcase_add_test(tc, a_single_gpu_needs_no_buffers);
    tcase_add_test(tc, two_ranks_have_a_ring_and_a_message_connection_per_channel);
    tcase_add_test(tc, groups_over_nodes_have_a_third_connection);
    tcase_add_test(tc, nvls_has_buffers_for_every_member);
    tcase_add_loop_test(tc, every_communicator_of_the_executor_is_counted, 0, 9);
    Suite *s = suite_create("sim/memory/network_memory");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
