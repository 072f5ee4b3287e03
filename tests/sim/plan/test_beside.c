/* Tests the order of ops in a layer with a shared expert. The shared expert's ops are placed
 * between the exchanges of the routed experts' rows, so that compute and exchanges overlap. */
#include "sim/plan/beside.h"
#include "sim/plan/local.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <string.h>

static struct arena arena;

static void tear_down(void)
{
    arena_release(&arena);
}

static struct local_ops lists_of(const char *name, const char *layout, bool beside)
{
    struct model model = model_of(name);
    struct plan plan = plan_of(layout, &arena);
    struct layer_options options = layer_flash;
    options.shared_beside = beside;
    return local_layer(rank_share_of(&plan), &model, 4096, &options, true, &arena);
}

static bool exchanges_rows(const struct op *op)
{
    return op_is_collective(op->kind) && op->stream == STREAM_EXPERT;
}

static const char *const layouts[] = { "tp1 ep8 mb1", "tp4 sp ep8 mb1", "tp4 sp ep8 etp4 mb1" };

static bool is_same_op(const struct op *a, const struct op *b)
{
    return a->kind == b->kind && a->pass == b->pass && a->bytes == b->bytes &&
           strcmp(a->name, b->name) == 0;
}

/* Checks that the ops are the same except for `fewer` ops, that each waits for an earlier op, and
 * that none reads a value before it is computed. */
static void check_order(const struct ops *plain, const struct ops *beside, int fewer)
{
    ck_assert_int_eq(plain->count, beside->count + fewer);
    for (int i = 0; i < beside->count; i++) {
        int found = 0;
        for (int j = 0; j < plain->count; j++)
            found += is_same_op(&plain->at[j], &beside->at[i]);
        ck_assert_int_eq(found, 1);
        ck_assert_int_lt(beside->at[i].after, i);
        for (int j = 0; j < beside->at[i].in.count; j++)
            ck_assert_int_lt(ops_maker(beside, beside->at[i].in.at[j]), i);
    }
}

/* A shared expert that overlaps keeps its gathered input, which the backward need not gather. */
START_TEST(reordered_lists_have_the_same_ops_in_a_valid_order)
{
    bool gathers = strstr(layouts[_i], "sp") != NULL;
    struct local_ops plain = lists_of("deepseek-v2-lite", layouts[_i], false);
    struct local_ops beside = lists_of("deepseek-v2-lite", layouts[_i], true);
    check_order(&plain.forward, &beside.forward, 0);
    check_order(&plain.backward, &beside.backward, gathers ? 1 : 0);
}
END_TEST

/* A block of DeepSeek-V2-Lite keeps 4,096 gathered rows of 2,048 values in 16 bits in addition to
 * the rank's own rows, which the router keeps anyway. */
START_TEST(a_shared_expert_that_overlaps_keeps_gathered_rows)
{
    double kept_bytes[2];
    for (int beside = 0; beside < 2; beside++) {
        struct local_ops lists = lists_of("deepseek-v2-lite", layouts[_i], beside == 1);
        kept_bytes[beside] = 0;
        for (int i = 0; i < lists.forward.count; i++)
            kept_bytes[beside] += op_saved_bytes(&lists.forward, &lists.forward.at[i]);
    }
    bool gathers = strstr(layouts[_i], "sp") != NULL;
    ck_assert_double_eq(kept_bytes[1] - kept_bytes[0], gathers ? 4096.0 * 2048 * 2 : 0);
}
END_TEST

/* Whether an op of the shared expert may start while the exchanges are under way: the op comes
 * after them in the list, and waits only for an op that comes before them. */
static bool starts_beside(const struct ops *ops, int run_first, int run_end)
{
    const struct op *next = &ops->at[run_end];
    return next->region == REGION_SHARED_EXPERT && next->after < run_first;
}

/* In forward and backward there are two groups of exchanges (to the experts and back). Each is
 * overlapped by one half of the shared expert, and the next op of the routed experts waits for the
 * exchange. */
START_TEST(each_exchange_overlaps_half_of_the_shared_expert)
{
    struct local_ops lists = lists_of("deepseek-v2-lite", layouts[_i], true);
    const struct ops *both[] = { &lists.forward, &lists.backward };
    for (int list = 0; list < 2; list++) {
        const struct ops *ops = both[list];
        int runs = 0;
        for (int i = 0; i < ops->count; i++) {
            if (!exchanges_rows(&ops->at[i]))
                continue;
            int end = i;
            while (exchanges_rows(&ops->at[end]))
                end++;
            ck_assert(starts_beside(ops, i, end));
            int next = end;
            while (ops->at[next].region == REGION_SHARED_EXPERT)
                next++;
            ck_assert_int_eq(ops->at[next].after, end - 1);
            i = end;
            runs++;
        }
        ck_assert_int_eq(runs, 2);
    }
}
END_TEST

/* Mixtral has no shared expert, and with ep1 rows of experts are not exchanged. */
START_TEST(lists_without_shared_expert_or_exchange_are_unchanged)
{
    static const char *const of[][2] = { { "mixtral-8x7b", "tp1 ep8 mb1" },
                                         { "deepseek-v2-lite", "tp1 mb1" } };
    struct local_ops plain = lists_of(of[_i][0], of[_i][1], false);
    struct local_ops beside = lists_of(of[_i][0], of[_i][1], true);
    for (int i = 0; i < plain.forward.count; i++)
        ck_assert(is_same_op(&plain.forward.at[i], &beside.forward.at[i]));
    for (int i = 0; i < plain.backward.count; i++)
        ck_assert(is_same_op(&plain.backward.at[i], &beside.backward.at[i]));
}
END_TEST

/* The shared expert may come first in the list; then its rows cannot be placed between exchanges
 * that follow it. */
START_TEST(a_shared_expert_before_the_exchanges_stays_there)
{
    struct op ops[6] = { { .kind = OP_GEMM, .region = REGION_SHARED_EXPERT },
                         { .kind = OP_ACTIVATION, .region = REGION_SHARED_EXPERT },
                         { .kind = OP_ALL_TO_ALL, .stream = STREAM_EXPERT },
                         { .kind = OP_GEMM, .region = REGION_EXPERTS },
                         { .kind = OP_ALL_TO_ALL, .stream = STREAM_EXPERT },
                         { .kind = OP_RESIDUAL } };
    struct ops list = { .at = ops, .count = LENGTH(ops) };
    for (int i = 0; i < list.count; i++)
        ops[i].after = i - 1;
    struct ops same = shared_beside_rows(list, &arena);
    for (int i = 0; i < list.count; i++) {
        ck_assert_int_eq(same.at[i].kind, ops[i].kind);
        ck_assert_int_eq(same.at[i].after, i - 1);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sim/plan/beside");
    TCase *tc = tcase_create("shared");
    int count = sizeof layouts / sizeof *layouts;
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_loop_test(tc, reordered_lists_have_the_same_ops_in_a_valid_order, 0, count);
    tcase_add_loop_test(tc, a_shared_expert_that_overlaps_keeps_gathered_rows, 0, count);
    tcase_add_loop_test(tc, each_exchange_overlaps_half_of_the_shared_expert, 0, count);
    tcase_add_loop_test(tc, lists_without_shared_expert_or_exchange_are_unchanged, 0, 2);
    tcase_add_test(tc, a_shared_expert_before_the_exchanges_stays_there);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
