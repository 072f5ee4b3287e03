#include "tests/testing.h"

#include "base/random.h"
#include "exec/comm/groups.h"
#include "exec/run/lane_status.h"
#include "exec/run/rank_state.h"
#include "sim/plan/ranks.h"
#include "tests/exec/parity.h"
#include "tests/sim/named.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 256 };

static struct arena arena;

static const char *const layouts[] = {
    "tp1 pp1 dp1 mb1",
    "tp2 pp2 dp2 mb1",
    "tp2 pp3 dp2 mb1 vpp2",
    "tp1 pp4 dp3 mb1 vpp2",
    "tp2 cp3 pp2 dp4 mb1 zero1 shard=6",
    "tp2 cp2 pp2 dp4 mb1 zero2 shard=2",
    "tp2 pp2 dp2 mb1 vpp3",
    "tp2 pp3 dp4 mb1 zero3 shard=2 order=tp-pp-cp-dp",
    "tp1 pp5 dp1 mb1 vpp2",
};
enum { NUM_LAYOUTS = LENGTH(layouts) };

static void check_members(const char *layout, int rank, enum group_kind kind, int count,
                          const int *expected)
{
    struct plan plan = plan_of(layout, &arena);
    int members[MOST_RANKS];
    ck_assert_int_eq(group_members(&plan, rank, kind, members), count);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(members[i], expected[i]);
}
#define CHECK_MEMBERS(layout, rank, kind, ...)                                      \
    check_members(layout, rank, kind, sizeof((int[]){ __VA_ARGS__ }) / sizeof(int), \
                  (int[]){ __VA_ARGS__ })

/* All degrees are 2, and a rank's number is tp + 2 (cp + 2 (dp + 2 pp)). So rank 11 = 1 + 2 (1 + 2
 * (0 + 2 x 1)) has the indices tp 1, cp 1, dp 0 and pp 1. */
START_TEST(groups_of_rank_11_equal_a_hand_count)
{
    const char *layout = "tp2 cp2 pp2 dp2 mb1 vpp2";
    CHECK_MEMBERS(layout, 11, GROUP_TENSOR, 10, 11);
    CHECK_MEMBERS(layout, 11, GROUP_DATA, 9, 11, 13, 15);
    CHECK_MEMBERS(layout, 11, GROUP_MODEL, 2, 3, 10, 11);
    CHECK_MEMBERS(layout, 11, GROUP_EMBEDDING, 3, 11);
    CHECK_MEMBERS(layout, 11, GROUP_SEND_DOWN, 11, 3);
    CHECK_MEMBERS(layout, 11, GROUP_RECV_DOWN, 3, 11);
    CHECK_MEMBERS(layout, 11, GROUP_SEND_UP, 11, 3);
    CHECK_MEMBERS(layout, 11, GROUP_RECV_UP, 3, 11);
}
END_TEST

/* Stages are connected by links (pairs of ranks). The link from the last stage to the first exists
 * only for interleaved chunks. */
START_TEST(interleaved_chunks_close_the_links_to_a_ring)
{
    int members[4];
    struct plan line = plan_of("tp1 pp3 dp1 mb1", &arena);
    ck_assert_int_eq(group_members(&line, 2, GROUP_SEND_DOWN, members), 0);
    ck_assert_int_eq(group_members(&line, 0, GROUP_SEND_UP, members), 0);
    ck_assert_int_eq(group_members(&line, 1, GROUP_EMBEDDING, members), 0);
    CHECK_MEMBERS("tp1 pp3 dp1 mb1", 1, GROUP_SEND_UP, 1, 0);
    CHECK_MEMBERS("tp1 pp3 dp1 mb1 vpp2", 2, GROUP_SEND_DOWN, 2, 0);
    CHECK_MEMBERS("tp1 pp3 dp1 mb1 vpp2", 0, GROUP_SEND_UP, 0, 2);
    CHECK_MEMBERS("tp1 pp3 dp1 mb1 vpp2", 2, GROUP_RECV_UP, 0, 2);
}
END_TEST

/* Checks every kind of group that contains all ranks. */
START_TEST(groups_of_each_kind_follow_the_layout_and_partition_the_ranks)
{
    struct plan plan = plan_of(layouts[_i], &arena);
    int members[MOST_RANKS], others[MOST_RANKS];
    for (int rank = 0; rank < plan_ranks(&plan); rank++) {
        ck_assert_int_eq(group_members(&plan, rank, GROUP_TENSOR, members), plan.tp);
        struct rank_group tensor = plan_group(&plan, TENSOR_RANKS);
        ck_assert_int_eq(group_ranks(&tensor, rank, others), plan.tp);
        ck_assert_mem_eq(members, others, (size_t)plan.tp * sizeof *members);
        for (int k = 0; k < NUM_GROUP_KINDS; k++) {
            enum group_kind kind = (enum group_kind)k;
            int count = group_members(&plan, rank, kind, members);
            bool found = count == 0;
            for (int i = 0; i < count; i++)
                found = found || members[i] == rank;
            ck_assert(found);
            bool is_link = kind >= GROUP_SEND_DOWN && kind <= GROUP_RECV_UP;
            for (int i = 0; i < count && !is_link; i++) {
                ck_assert_int_eq(group_members(&plan, members[i], kind, others), count);
                ck_assert_mem_eq(members, others, (size_t)count * sizeof *members);
            }
        }
        ck_assert_int_eq(group_members(&plan, rank, GROUP_DATA, members), plan_replicas(&plan));
        ck_assert_int_eq(group_members(&plan, rank, GROUP_WORLD, members), plan_ranks(&plan));
    }
}
END_TEST

/* The neighbouring rank lists the same two ranks for its end of the link. */
START_TEST(both_ends_of_a_link_name_the_same_two_ranks)
{
    static const enum group_kind ends[][2] = { { GROUP_SEND_DOWN, GROUP_RECV_DOWN },
                                               { GROUP_SEND_UP, GROUP_RECV_UP } };
    struct plan plan = plan_of(layouts[_i], &arena);
    int own[2], other[2];
    for (int rank = 0; rank < plan_ranks(&plan); rank++)
        for (int i = 0; i < 2; i++) {
            if (group_members(&plan, rank, ends[i][0], own) == 0)
                continue;
            ck_assert_int_eq(own[0], rank);
            ck_assert_int_eq(group_members(&plan, own[1], ends[i][1], other), 2);
            ck_assert_int_eq(other[0], own[0]);
            ck_assert_int_eq(other[1], own[1]);
        }
}
END_TEST

/* --- communicators on real ranks ------------------------------------------------------------ */

struct rank_thread {
    const struct plan *plan;
    struct local_world *world;
    int rank;
    char fault[600];
    pthread_t thread;
};

/* Checks that a sum of rank numbers over a group gives `wanted`. */
static void try_call(struct rank_thread *own, const struct groups *groups, enum group_kind kind,
                     struct comm_call call, double wanted)
{
    double in = own->rank, out = -1;
    struct err err = { 0 };
    call.group = groups->of[kind];
    call.in = &in;
    call.out = &out;
    call.count = 1;
    call.element = ELEMENT_FP64;
    groups->api->issue(&call);
    if (!device_host.stream_sync(call.stream, &err) || out != wanted)
        snprintf(own->fault, sizeof own->fault, "rank %d: the sum over group %s is %g, not %g",
                 own->rank, group_kind_names[kind], out, wanted);
}

static void try_sum(struct rank_thread *own, const struct groups *groups, struct stream *stream,
                    enum group_kind kind)
{
    const struct group *group = groups->of[kind];
    double sum = 0;
    for (int i = 0; group && i < group->size; i++)
        sum += group->ranks[i];
    if (group)
        try_call(own, groups, kind, (struct comm_call){ .kind = COMM_ALL_REDUCE, .stream = stream },
                 sum);
}

/* Sends have a separate stream, as in the executor. With one stream, ranks that all send before
 * they receive would deadlock in a ring of links. */
static void try_links(struct rank_thread *own, struct device *device, const struct groups *groups,
                      enum group_kind sends, enum group_kind receives)
{
    struct err err = { 0 };
    struct stream *down = device_host.stream_new(device, "send", &err);
    struct stream *up = device_host.stream_new(device, "recv", &err);
    double in = own->rank;
    if (groups->of[sends])
        groups->api->issue(&(struct comm_call){ .kind = COMM_SEND,
                                                .group = groups->of[sends],
                                                .stream = down,
                                                .in = &in,
                                                .count = 1,
                                                .element = ELEMENT_FP64,
                                                .peer = 1 });
    if (groups->of[receives])
        try_call(own, groups, receives, (struct comm_call){ .kind = COMM_RECV, .stream = up },
                 groups->of[receives]->ranks[0]);
    device_host.stream_free(down);
    device_host.stream_free(up);
}

static void try_groups(struct rank_thread *own, struct device *device, const struct groups *groups)
{
    static const enum group_kind collective[] = { GROUP_TENSOR, GROUP_DATA, GROUP_MODEL,
                                                  GROUP_WORLD, GROUP_EMBEDDING };
    struct err err = { 0 };
    struct stream *stream = device_host.stream_new(device, "groups", &err);
    for (size_t i = 0; i < LENGTH(collective); i++)
        try_sum(own, groups, stream, collective[i]);
    device_host.stream_free(stream);
    try_links(own, device, groups, GROUP_SEND_DOWN, GROUP_RECV_DOWN);
    try_links(own, device, groups, GROUP_SEND_UP, GROUP_RECV_UP);
}

static void *run_rank(void *argument)
{
    struct rank_thread *own = argument;
    struct err err = { 0 };
    struct place place = { .rank = own->rank, .size = plan_ranks(own->plan) };
    struct device *device = device_host.open(&(struct device_options){ 0 }, &err);
    struct comm *comm = comm_local.open(&(struct comm_options){ .place = &place,
                                                                .device = &device_host,
                                                                .local_world = own->world },
                                        &err);
    struct groups groups;
    if (groups_new(&comm_local, comm, own->plan, own->rank, &groups, &err))
        try_groups(own, device, &groups);
    else
        snprintf(own->fault, sizeof own->fault, "%s", err.msg);
    groups_free(&groups);
    comm_local.close(comm);
    device_host.close(device);
    return NULL;
}

START_TEST(communicators_join_the_ranks_of_their_groups)
{
    struct plan plan = plan_of(layouts[_i], &arena);
    int size = plan_ranks(&plan);
    struct rank_thread ranks[MOST_RANKS];
    struct local_world *world = local_world_new(size);
    for (int rank = 0; rank < size; rank++) {
        ranks[rank] = (struct rank_thread){ .plan = &plan, .world = world, .rank = rank };
        pthread_create(&ranks[rank].thread, NULL, run_rank, &ranks[rank]);
    }
    for (int rank = 0; rank < size; rank++)
        pthread_join(ranks[rank].thread, NULL);
    for (int rank = 0; rank < size; rank++)
        ck_assert_str_eq(ranks[rank].fault, "");
    local_world_free(world);
}
END_TEST

/* --- names of instructions ---------------------------------------------------------------- */

/* The instruction names of each rank are those of 1F1B with two stages and two microbatches. A
 * message has the name of the chunk that sends it. */
static const char *const names[2][16] = {
    { "FORWARD c0 mb0", "SEND_ACT c0 mb0 to 1", "RECV_GRAD c1 mb0 from 1", "FORWARD c0 mb1",
      "SEND_ACT c0 mb1 to 1", "RECV_GRAD c1 mb1 from 1", "BACKWARD c0 mb0", "BACKWARD c0 mb1",
      "REDUCE_TIED", "NORM_GRAD", "OPTIMIZER" },
    { "RECV_ACT c0 mb0 from 0", "FORWARD c1 mb0", "RECV_ACT c0 mb1 from 0", "BACKWARD c1 mb0",
      "SEND_GRAD c1 mb0 to 0", "FORWARD c1 mb1", "BACKWARD c1 mb1", "SEND_GRAD c1 mb1 to 0",
      "REDUCE_TIED", "NORM_GRAD", "OPTIMIZER" },
};

static bool check_names(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct watchdog_options options = { .num_lanes = NUM_WATCHED_LANES,
                                        .describe = lane_status_describe };
    (void)run;
    rank->on.watchdog = watchdog_new(&options, err);
    ck_assert(rank->on.watchdog && lane_status_open(rank, err));
    for (int i = 0; i < rank->list->count; i++)
        ck_assert_str_eq(rank->names[i], names[rank->on.rank][i]);
    lane_status_close(rank);
    watchdog_free(rank->on.watchdog);
    rank->on.watchdog = NULL;
    rank->arrivals = NULL;
    return true;
}

START_TEST(instructions_are_named_by_operation_chunk_microbatch_and_peer)
{
    struct model model = parity_gpt();
    struct parity_run run = { .steps = 0, .before = check_names };
    struct parity_result result;
    parity_run(&model, "pp2 mb4", &run, &result);
    parity_release(&result);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("groups");
    tcase_set_tags(tc, THREADS);
    tcase_add_test(tc, instructions_are_named_by_operation_chunk_microbatch_and_peer);
    tcase_add_test(tc, groups_of_rank_11_equal_a_hand_count);
    tcase_add_test(tc, interleaved_chunks_close_the_links_to_a_ring);
    tcase_add_loop_test(tc, groups_of_each_kind_follow_the_layout_and_partition_the_ranks, 0,
                        NUM_LAYOUTS);
    tcase_add_loop_test(tc, both_ends_of_a_link_name_the_same_two_ranks, 0, NUM_LAYOUTS);
    tcase_add_loop_test(tc, communicators_join_the_ranks_of_their_groups, 0, TURNS(NUM_LAYOUTS));
    Suite *s = suite_create("exec/comm/groups");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
