#include "sim/plan/axis.h"
#include "sim/plan/group.h"
#include "sim/plan/ranks.h"
#include "tests/testing.h"

#include <string.h>

/* The 24 orders of tp, cp, dp and pp. The axis ep always comes before dp and has one rank. */
enum { NUM_ORDERS = 24 };

static void set_order(struct plan *plan, int index)
{
    int left[] = { AXIS_TENSOR, AXIS_CONTEXT, AXIS_DATA, AXIS_PIPELINE };
    int count = 0;
    for (int n = 4; n > 0; n--) {
        int pick = index % n;
        index /= n;
        if (left[pick] == AXIS_DATA)
            plan->order[count++] = AXIS_EXPERT;
        plan->order[count++] = left[pick];
        memmove(&left[pick], &left[pick + 1], sizeof(int) * (size_t)(n - 1 - pick));
    }
}

static const int worlds[][4] = { /* tp, cp, dp, pp */
                                 { 1, 1, 1, 1 },
                                 { 2, 1, 2, 2 },
                                 { 2, 3, 5, 4 },
                                 { 8, 1, 3, 2 },
                                 { 3, 2, 1, 7 }
};
enum { NUM_WORLDS = LENGTH(worlds) };

static struct plan plan_of(int world, int order)
{
    struct plan plan = plan_default();
    plan.tp = worlds[world][0];
    plan.cp = worlds[world][1];
    plan.dp = worlds[world][2];
    plan.pp = worlds[world][3];
    plan.ep = plan.dp; /* the degree of experts, which must not change the result */
    set_order(&plan, order);
    return plan;
}

START_TEST(default_rank_numbers_vary_by_tp_then_cp_then_dp_then_pp)
{
    struct plan plan = plan_default();
    plan.tp = 2, plan.cp = 3, plan.dp = 5, plan.pp = 4;
    struct coordinates at = { 0 };
    at.at[AXIS_TENSOR] = 1, at.at[AXIS_CONTEXT] = 2, at.at[AXIS_DATA] = 3, at.at[AXIS_PIPELINE] = 2;
    /* the rank is 1 + 2 (2 + 3 (3 + 5 * 2)) */
    ck_assert_int_eq(layout_rank_of(&plan, at), 83);
    ck_assert_int_eq(layout_stride(&plan, AXIS_TENSOR), 1);
    ck_assert_int_eq(layout_stride(&plan, AXIS_CONTEXT), 2);
    ck_assert_int_eq(layout_stride(&plan, AXIS_DATA), 6);
    ck_assert_int_eq(layout_stride(&plan, AXIS_PIPELINE), 30);
}
END_TEST

START_TEST(coordinates_and_ranks_round_trip)
{
    for (int world = 0; world < NUM_WORLDS; world++) {
        struct plan plan = plan_of(world, _i);
        struct grid grid = plan_grid(&plan);
        for (int rank = 0; rank < plan_ranks(&plan); rank++) {
            struct coordinates at = layout_coordinates_of(&plan, rank);
            for (enum axis_id axis = 0; axis < NUM_NAMED_AXES; axis++)
                ck_assert(at.at[axis] >= 0 && at.at[axis] < grid.degree[axis]);
            ck_assert_int_eq(layout_rank_of(&plan, at), rank);
        }
    }
}
END_TEST

/* A group computed by coordinates, independently of rank_group: ranks that differ from `rank` only
 * along the axes of the set. */
static int ranks_across(const struct plan *plan, int rank, unsigned set, int *members)
{
    struct coordinates own = layout_coordinates_of(plan, rank);
    int count = 0;
    for (int other = 0; other < plan_ranks(plan); other++) {
        struct coordinates at = layout_coordinates_of(plan, other);
        bool same = true;
        for (int axis = 0; axis < num_axes; axis++)
            same = same && (at.at[axis] == own.at[axis] || (set >> axis & 1));
        if (same)
            members[count++] = other;
    }
    return count;
}

START_TEST(ranks_of_a_group_differ_only_along_its_axes)
{
    for (int world = 0; world < NUM_WORLDS; world++) {
        struct plan plan = plan_of(world, _i);
        for (unsigned set = 0; set < 1u << NUM_NAMED_AXES; set++) {
            struct rank_group group = plan_group(&plan, set);
            for (int rank = 0; rank < plan_ranks(&plan); rank += 1 + rank % 3) {
                int members[256], expected[256];
                int count = ranks_across(&plan, rank, set, expected);
                ck_assert_int_eq(group_size(&group), count);
                ck_assert_int_eq(group_ranks(&group, rank, members), count);
                ck_assert_mem_eq(members, expected, (size_t)count * sizeof *members);
            }
        }
    }
}
END_TEST

START_TEST(neighbours_along_an_axis_are_a_stride_apart)
{
    for (int world = 0; world < NUM_WORLDS; world++) {
        struct plan plan = plan_of(world, _i);
        struct grid grid = plan_grid(&plan);
        for (enum axis_id axis = 0; axis < NUM_NAMED_AXES; axis++) {
            int members[256];
            struct rank_group group = plan_group(&plan, 1u << axis);
            int count = group_ranks(&group, 0, members);
            ck_assert_int_eq(count, grid.degree[axis]);
            for (int i = 1; i < count; i++)
                ck_assert_int_eq(members[i], i * layout_stride(&plan, axis));
        }
    }
}
END_TEST

/* State is sharded over context ranks first. With cp 3 and 6 shards, a shard group has all three
 * context ranks of two data ranks. */
START_TEST(shard_groups_are_neighbouring_ranks_and_replicas_are_apart)
{
    struct plan plan = plan_default();
    plan.tp = 2, plan.cp = 3, plan.dp = 4, plan.zero = 1, plan.shard = 6;
    struct rank_group shard = shard_ranks(&plan), replicas = shard_replicas(&plan);
    int members[24];
    ck_assert_int_eq(group_ranks(&shard, 13, members), 6);
    ck_assert_mem_eq(members, ((int[]){ 13, 15, 17, 19, 21, 23 }), 6 * sizeof *members);
    ck_assert_int_eq(group_ranks(&replicas, 13, members), 2);
    ck_assert_mem_eq(members, ((int[]){ 1, 13 }), 2 * sizeof *members);
}
END_TEST

/* Experts are placed on the same ranks by a separate grid; `experts` has its tp, ep and dp. The
 * groups are those of Megatron-Core's parallel_state.py for the order tp-cp-ep-dp-pp. */
static const struct {
    int tp, cp, dp, pp, etp, ep;
    struct {
        bool is_experts;
        unsigned axes;
        int rank, count, ranks[8];
    } groups[6];
} folded[] = {
    { 2,
      2,
      2,
      2,
      1,
      4,
      { { false, TENSOR_RANKS, 0, 2, { 0, 1 } },
        { false, CONTEXT_RANKS, 0, 2, { 0, 2 } },
        { false, DATA_RANKS, 0, 2, { 0, 4 } },
        { false, CONTEXT_RANKS | DATA_RANKS, 0, 4, { 0, 2, 4, 6 } },
        { true, EXPERT_RANKS, 1, 4, { 0, 1, 2, 3 } },
        { true, DATA_RANKS, 0, 2, { 0, 4 } } } },
    { 2,
      1,
      4,
      2,
      2,
      2,
      { { true, EXPERT_RANKS, 0, 2, { 0, 2 } },
        { true, EXPERT_RANKS, 1, 2, { 1, 3 } },
        { true, DATA_RANKS, 0, 2, { 0, 4 } },
        { true, PIPELINE_RANKS, 0, 2, { 0, 8 } },
        { false, PIPELINE_RANKS, 0, 2, { 0, 8 } },
        { true, TENSOR_RANKS, 0, 2, { 0, 1 } } } },
    { 4,
      1,
      2,
      1,
      1,
      8,
      { { true, EXPERT_RANKS, 5, 8, { 0, 1, 2, 3, 4, 5, 6, 7 } },
        { true, DATA_RANKS, 0, 1, { 0 } },
        { false, TENSOR_RANKS, 5, 4, { 4, 5, 6, 7 } },
        { false, DATA_RANKS, 5, 2, { 1, 5 } },
        { true, TENSOR_RANKS, 3, 1, { 3 } },
        { true, CONTEXT_RANKS, 3, 1, { 3 } } } },
};
enum { NUM_FOLDED = LENGTH(folded) };

START_TEST(experts_have_a_separate_grid_over_the_same_ranks)
{
    struct plan plan = plan_default();
    plan.tp = folded[_i].tp, plan.cp = folded[_i].cp, plan.dp = folded[_i].dp;
    plan.pp = folded[_i].pp, plan.etp = folded[_i].etp, plan.ep = folded[_i].ep;
    struct grid grids[] = { plan_grid(&plan), plan_expert_grid(&plan) };
    ck_assert_int_eq(grid_ranks(&grids[0]), plan_ranks(&plan));
    ck_assert_int_eq(grid_ranks(&grids[1]), plan_ranks(&plan));
    for (size_t i = 0; i < LENGTH(folded[_i].groups); i++) {
        int members[16];
        struct rank_group group =
            grid_group(&grids[folded[_i].groups[i].is_experts], folded[_i].groups[i].axes);
        int count = group_ranks(&group, folded[_i].groups[i].rank, members);
        ck_assert_int_eq(count, folded[_i].groups[i].count);
        ck_assert_mem_eq(members, folded[_i].groups[i].ranks, (size_t)count * sizeof *members);
    }
}
END_TEST

static const struct {
    int stride, size, node_size;
    struct span span;
} spans[] = {
    { 1, 8, 8, { 8, 1, 8 } },  { 1, 16, 8, { 8, 2, 8 } },  { 8, 16, 8, { 1, 16, 1 } },
    { 4, 6, 8, { 2, 3, 2 } },  { 2, 3, 8, { 3, 1, 3 } },   { 16, 4, 8, { 1, 4, 1 } },
    { 3, 4, 8, { 3, 2, 1 } },  { 6, 4, 8, { 2, 3, 1 } },   { 12, 4, 8, { 1, 4, 1 } },
    { 1, 1, 8, { 1, 1, 1 } },  { 100, 1, 8, { 1, 1, 1 } }, { 5, 7, 1, { 1, 7, 1 } },
    { 9, 3, 72, { 3, 1, 3 } }, { 1, 12, 8, { 8, 2, 4 } },
};
enum { NUM_SPANS = LENGTH(spans) };

/* The span of a group is the number of its nodes and of its members per node. In a group with
 * distance 6, ranks 0 and 6 are on the first node of 8 GPUs, rank 12 is on the second and rank 18
 * on the third. */
START_TEST(a_span_counts_members_and_nodes)
{
    struct span span = layout_span(spans[_i].stride, spans[_i].size, spans[_i].node_size);
    ck_assert_int_eq(span.ranks_per_node, spans[_i].span.ranks_per_node);
    ck_assert_int_eq(span.num_nodes, spans[_i].span.num_nodes);
    ck_assert_int_eq(span.fewest_in_node, spans[_i].span.fewest_in_node);
}
END_TEST

/* The span, counted member by member. */
static struct span counted(const int *members, int size, int node_size)
{
    int in_node[2048] = { 0 };
    struct span span = { 0 };
    for (int i = 0; i < size; i++) {
        int count = ++in_node[members[i] / node_size];
        span.num_nodes += count == 1;
        span.ranks_per_node = count > span.ranks_per_node ? count : span.ranks_per_node;
    }
    span.fewest_in_node = span.ranks_per_node;
    for (int node = 0; node < 2048; node++)
        if (in_node[node] > 0 && in_node[node] < span.fewest_in_node)
            span.fewest_in_node = in_node[node];
    return span;
}

START_TEST(a_span_equals_counting_members_and_nodes)
{
    int node_size = _i;
    for (int stride = 1; stride <= 20; stride++)
        for (int size = 1; size <= 20; size++) {
            int members[20];
            for (int i = 0; i < size; i++)
                members[i] = i * stride;
            struct span expected = counted(members, size, node_size);
            struct span span = layout_span(stride, size, node_size);
            ck_assert_int_eq(span.num_nodes, expected.num_nodes);
            ck_assert_int_eq(span.ranks_per_node, expected.ranks_per_node);
            ck_assert_int_eq(span.fewest_in_node, expected.fewest_in_node);
        }
}
END_TEST

static bool is_worse(struct span a, struct span b)
{
    if (a.num_nodes != b.num_nodes)
        return a.num_nodes > b.num_nodes;
    if (a.fewest_in_node != b.fewest_in_node)
        return a.fewest_in_node < b.fewest_in_node;
    return a.ranks_per_node < b.ranks_per_node;
}

/* The largest span over the groups of all ranks. */
static struct span worst_group(const struct plan *plan, enum axis_id axis, int node_size)
{
    struct span worst = { 0 };
    for (int rank = 0; rank < plan_ranks(plan); rank++) {
        int members[64];
        struct rank_group group = plan_group(plan, 1u << axis);
        int size = group_ranks(&group, rank, members);
        struct span span = counted(members, size, node_size);
        if (is_worse(span, worst))
            worst = span;
    }
    return worst;
}

START_TEST(the_span_of_an_axis_is_that_of_its_most_spread_group)
{
    if (is_spared(_i, 3))
        return;
    for (int world = 0; world < NUM_WORLDS; world++)
        for (int node_size = 1; node_size <= 20; node_size++) {
            struct plan plan = plan_of(world, _i);
            for (enum axis_id axis = 0; axis < NUM_NAMED_AXES; axis++) {
                struct span expected = worst_group(&plan, axis, node_size);
                struct span span = layout_axis_span(&plan, axis, node_size);
                ck_assert_int_eq(span.num_nodes, expected.num_nodes);
                ck_assert_int_eq(span.ranks_per_node, expected.ranks_per_node);
                ck_assert_int_eq(span.fewest_in_node, expected.fewest_in_node);
            }
        }
}
END_TEST

/* With tp2 dp3 pp2 on nodes of 8 GPUs, a data group of the first stage has ranks 0, 2 and 4; one of
 * the second stage has 6, 8 and 10, which are on two nodes. */
START_TEST(a_later_group_can_cross_nodes_where_the_first_does_not)
{
    struct plan plan = plan_default();
    plan.tp = 2, plan.dp = 3, plan.pp = 2;
    ck_assert_int_eq(layout_span(2, 3, 8).num_nodes, 1);
    ck_assert_int_eq(layout_axis_span(&plan, AXIS_DATA, 8).num_nodes, 2);
    plan.pp = 1;
    ck_assert_int_eq(layout_axis_span(&plan, AXIS_DATA, 8).num_nodes, 1);
}
END_TEST

START_TEST(every_axis_is_at_its_index_and_documented)
{
    const struct axis *axis = axes[_i];
    struct plan plan = plan_default();
    ck_assert_str_eq(axis->name, axis->words[0].name);
    ck_assert_uint_eq(axis->words[0].member,
                      offsetof(struct plan, degree) + (size_t)_i * sizeof(int));
    ck_assert_ptr_nonnull(axis->source);
    ck_assert_int_eq(axis->summary[strlen(axis->summary) - 1], '.');
    ck_assert_int_eq(plan.degree[_i], 1);
    ck_assert_int_eq(num_axes, NUM_NAMED_AXES);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("layout");
    tcase_add_test(tc, default_rank_numbers_vary_by_tp_then_cp_then_dp_then_pp);
    tcase_add_loop_test(tc, coordinates_and_ranks_round_trip, 0, NUM_ORDERS);
    tcase_add_loop_test(tc, ranks_of_a_group_differ_only_along_its_axes, 0, NUM_ORDERS);
    tcase_add_loop_test(tc, neighbours_along_an_axis_are_a_stride_apart, 0, NUM_ORDERS);
    tcase_add_test(tc, shard_groups_are_neighbouring_ranks_and_replicas_are_apart);
    tcase_add_loop_test(tc, experts_have_a_separate_grid_over_the_same_ranks, 0, NUM_FOLDED);
    tcase_add_loop_test(tc, a_span_counts_members_and_nodes, 0, NUM_SPANS);
    tcase_add_loop_test(tc, a_span_equals_counting_members_and_nodes, 1, 20);
    tcase_add_loop_test(tc, the_span_of_an_axis_is_that_of_its_most_spread_group, 0, NUM_ORDERS);
    tcase_add_test(tc, a_later_group_can_cross_nodes_where_the_first_does_not);
    tcase_add_loop_test(tc, every_axis_is_at_its_index_and_documented, 0, NUM_NAMED_AXES);
    Suite *s = suite_create("sim/plan/layout");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
