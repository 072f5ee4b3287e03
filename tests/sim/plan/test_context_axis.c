#include "sim/plan/context_axis.h"
#include "sim/plan/local.h"
#include "sim/plan/lowering.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/machine.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <stdlib.h>

static struct arena arena;
static struct model model;
static struct err err;

static void tear_down(void)
{
    machine_release();
    arena_release(&arena);
}

static void load(const char *name, int num_gpus)
{
    machine_load("dgx-h100", num_gpus);
    model = model_of(name);
}

static struct local_ops layer_of(const char *layout)
{
    struct plan plan = plan_of(layout, &arena);
    return local_layer(rank_share_of(&plan), &model, model.seq, &layer_flash, true, &arena);
}

static double sum_of(struct ops ops, double (*value)(const struct op *op))
{
    double sum = 0;
    for (int i = 0; i < ops.count; i++)
        sum += value(&ops.at[i]);
    return sum;
}

/* --- volumes, by hand ---------------------------------------------------------------------------
 */

/* LLaMA-3 8B has 8192 tokens on 4 context ranks in bf16. A rank has 2048 tokens, each with 8 heads
 * of keys, 8 of values and 32 of queries or outputs, of 128 channels each. */
static const double key_bytes = 2.0 * 2048 * 2 * 8 * 128;
static const double query_bytes = 2.0 * 2048 * 32 * 128;

/* The exchanges of one kind in an op list (the sequence of ops of a layer): their number and their
 * total bytes. */
static const struct {
    const char *method;
    enum op_kind kind;
    bool is_backward;
    double messages;
    double keys, queries; /* total bytes of a kind of exchange, and the number of exchanges */
} volumes[] = {
    { "p2p", OP_SEND_RECEIVE, false, 3, 3, 0 },
    { "p2p", OP_SEND_RECEIVE, true, 4, 6,
      0 }, /* 3 messages of keys and 3 of gradients, of which 2 pairs are sent together */
    { "p2p", OP_ALL_GATHER, true, 0, 0, 0 },
    { "all-gather", OP_ALL_GATHER, false, 1, 4, 0 },
    { "all-gather", OP_REDUCE_SCATTER, false, 0, 0, 0 },
    { "all-gather", OP_ALL_GATHER, true, 1, 4, 0 },
    { "all-gather", OP_REDUCE_SCATTER, true, 1, 4, 0 },
    { "a2a", OP_ALL_TO_ALL, false, 4, 1, 2 },
    { "a2a", OP_ALL_TO_ALL, true, 4, 1, 2 },
};
enum { NUM_VOLUMES = LENGTH(volumes) };

START_TEST(each_context_method_moves_the_bytes_of_its_paper)
{
    load("llama3-8b", 8);
    char layout[64];
    snprintf(layout, sizeof layout, "cp4 cp-comm=%s", volumes[_i].method);
    struct local_ops local = layer_of(layout);
    struct ops ops = volumes[_i].is_backward ? local.backward : local.forward;
    double messages = 0;
    double bytes = 0;
    for (int i = 0; i < ops.count; i++) {
        if (ops.at[i].kind != volumes[_i].kind)
            continue;
        messages += ops.at[i].batch;
        bytes += ops.at[i].batch * ops.at[i].comm_bytes;
    }
    ck_assert_double_eq(messages, volumes[_i].messages);
    ck_assert_double_eq(bytes, volumes[_i].keys * key_bytes + volumes[_i].queries * query_bytes);
}
END_TEST

START_TEST(two_context_ranks_send_keys_once_and_gradients_once)
{
    load("llama3-8b", 8);
    struct ops ops = layer_of("cp2").backward;
    int messages = 0;
    for (int i = 0; i < ops.count; i++)
        if (ops.at[i].kind == OP_SEND_RECEIVE) {
            ck_assert_double_eq(ops.at[i].batch, 1);
            ck_assert_double_eq(ops.at[i].comm_bytes, 2 * key_bytes);
            messages++;
        }
    ck_assert_int_eq(messages, 2);
}
END_TEST

START_TEST(tensor_ranks_divide_the_bytes_of_context_ranks)
{
    load("llama3-8b", 8);
    struct ops ops = layer_of("tp4 cp4 sp").forward;
    for (int i = 0; i < ops.count; i++)
        if (ops.at[i].kind == OP_SEND_RECEIVE)
            ck_assert_double_eq(ops.at[i].comm_bytes, key_bytes / 4);
}
END_TEST

START_TEST(memory_for_other_ranks_keys_depends_on_the_method)
{
    load("llama3-8b", 8);
    static const char *const layouts[] = { "cp1", "cp4", "cp4 cp-comm=all-gather",
                                           "cp4 cp-comm=a2a" };
    const double expected[] = { 0, 2 * key_bytes, 4 * key_bytes, query_bytes + key_bytes };
    for (int i = 0; i < 4; i++) {
        struct plan plan = plan_of(layouts[i], &arena);
        struct layer_dims dims = local_dims(rank_share_of(&plan), &model, model.seq);
        ck_assert_double_eq(context_buffer_bytes(rank_share_of(&plan), &dims, 2), expected[i]);
    }
}
END_TEST

START_TEST(a_rank_has_its_share_of_tokens_and_all_keys_and_weights)
{
    load("llama3-8b", 8);
    struct plan plan = plan_of("tp2 cp4 sp mb3", &arena);
    struct layer_dims dims = local_dims(rank_share_of(&plan), &model, 8192);
    ck_assert_double_eq(dims.batch, 3);
    ck_assert_double_eq(dims.seq, 2048);
    ck_assert_double_eq(dims.kv_seq, 8192);
    ck_assert_double_eq(dims.tokens, 3 * 2048);
    ck_assert_double_eq(dims.norm_tokens, 3 * 1024);
    ck_assert_double_eq(dims.heads, 16);
    ck_assert_double_eq(dims.ffn, 7168);
}
END_TEST

/* --- laws over presets, degrees and methods -----------------------------------------------------
 */

typedef void check_fn(const struct plan *plan);

/* Calls `check` for every shipped model whose sequences and heads can be split over context ranks,
 * with and without tensor ranks. */
static void for_each_split(check_fn *check)
{
    size_t count;
    struct model_preset *presets = model_presets(&count, &err);
    ck_assert_msg(presets, "%s", err.msg);
    int num_checked = 0;
    for (size_t i = 0; i < count; i++)
        for (int cp = 2; cp <= 16; cp *= 2)
            for (int tp = 1; tp <= 2; tp++)
                for (int method = 0; method < NUM_CONTEXT_COMMS; method++) {
                    struct plan plan = plan_default();
                    plan.cp = cp;
                    plan.tp = tp;
                    plan.sp = tp > 1;
                    plan.context_comm = method;
                    model = presets[i].model;
                    struct err why = { 0 };
                    if (!has_costs(&model) || plan_check(&plan, &model, 1, tp * cp, &why))
                        continue;
                    check(&plan);
                    num_checked++;
                    arena_release(&arena);
                }
    ck_assert_int_gt(num_checked, 100);
    free(presets);
}

static struct local_ops layer_for(const struct plan *plan, int cp)
{
    struct plan other = *plan;
    other.cp = cp;
    return local_layer(rank_share_of(&other), &model, model.seq, &layer_flash, true, &arena);
}

static double flops_of(const struct op *op)
{
    return op->flops;
}

static double model_flops_of(const struct op *op)
{
    return op->model_flops;
}

static void check_same(struct ops share, struct ops whole, int cp,
                       double (*value)(const struct op *op))
{
    double expected = sum_of(whole, value);
    ck_assert_double_eq_tol(cp * sum_of(share, value), expected, 1e-12 * expected);
}

static void check_flops(const struct plan *plan)
{
    struct local_ops share = layer_for(plan, plan->cp);
    struct local_ops whole = layer_for(plan, 1);
    check_same(share.forward, whole.forward, plan->cp, flops_of);
    check_same(share.backward, whole.backward, plan->cp, flops_of);
    check_same(share.forward, whole.forward, plan->cp, model_flops_of);
    check_same(share.backward, whole.backward, plan->cp, model_flops_of);
}

START_TEST(flops_of_all_ranks_sum_to_those_of_one)
{
    for_each_split(check_flops);
}
END_TEST

static void check_saved(const struct plan *plan)
{
    double share = activation_bytes(layer_for(plan, plan->cp).forward, false);
    double whole = activation_bytes(layer_for(plan, 1).forward, false);
    ck_assert_double_eq_tol(share * plan->cp, whole, 1e-9 * whole);
}

START_TEST(kept_bytes_of_all_ranks_sum_to_those_of_one)
{
    for_each_split(check_saved);
}
END_TEST

static void check_list(struct ops ops)
{
    for (int i = 0; i < ops.count; i++) {
        const struct op *op = &ops.at[i];
        ck_assert(op->kind != OP_CP_ENTER && op->kind != OP_CP_LEAVE);
        ck_assert(op->after >= -1 && op->after < i);
        if (op->stream == STREAM_CONTEXT) {
            ck_assert(op_is_collective(op->kind) && op->comm_bytes > 0 && op->batch >= 1);
            ck_assert_double_eq(op->flops + op->bytes, 0);
            ck_assert_int_eq(op->saved.count, 0);
        }
    }
}

static void check_order(const struct plan *plan)
{
    struct local_ops ops = layer_for(plan, plan->cp);
    check_list(ops.forward);
    check_list(ops.backward);
    check_operands(ops.forward, ops.backward);
}

START_TEST(no_placeholder_is_left_and_each_op_waits_for_an_earlier_one)
{
    for_each_split(check_order);
}
END_TEST

static void check_alone(const struct plan *plan)
{
    struct local_ops ops = layer_for(plan, 1);
    struct ops lists[] = { ops.forward, ops.backward };
    for (int list = 0; list < 2; list++)
        for (int i = 0; i < lists[list].count; i++)
            ck_assert_int_ne(lists[list].at[i].stream, STREAM_CONTEXT);
}

START_TEST(one_rank_exchanges_nothing)
{
    for_each_split(check_alone);
}
END_TEST

START_TEST(a_ring_of_any_size_is_a_few_ops)
{
    load("llama3-8b", 8);
    ck_assert_int_eq(layer_of("cp1024").forward.count, layer_of("cp4").forward.count);
    ck_assert_int_eq(layer_of("cp1024").backward.count, layer_of("cp4").backward.count);
}
END_TEST

START_TEST(every_context_method_has_the_name_of_its_word)
{
    for (int i = 0; i < NUM_CONTEXT_COMMS; i++) {
        ck_assert_str_eq(context_methods[i].name, context_comm_words[i]);
        ck_assert(context_methods[i].source[0]);
        ck_assert(context_methods[i].summary[0]);
    }
}
END_TEST

/* Context ranks hold the same weights, as data ranks do, so the gradients of both are summed. */
START_TEST(context_ranks_without_data_ranks_reduce_gradients)
{
    static const struct {
        int dp, cp;
        bool reduces;
    } table[] = { { 1, 1, false }, { 1, 2, true }, { 2, 1, true }, { 2, 2, true }, { 2, 4, true } };
    for (int i = 0; i < LENGTH(table); i++) {
        struct model gpt = model_of("gpt3-1.3b");
        struct plan plan = plan_default();
        plan.dp = table[i].dp;
        plan.cp = table[i].cp;
        ck_assert_int_eq(plan_lowering(&plan, &gpt).has_data_group, table[i].reduces);
    }
}
END_TEST

static TCase *by_hand(void)
{
    TCase *tc = tcase_create("volumes");
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_loop_test(tc, each_context_method_moves_the_bytes_of_its_paper, 0, NUM_VOLUMES);
    tcase_add_test(tc, context_ranks_without_data_ranks_reduce_gradients);
    tcase_add_test(tc, two_context_ranks_send_keys_once_and_gradients_once);
    tcase_add_test(tc, tensor_ranks_divide_the_bytes_of_context_ranks);
    tcase_add_test(tc, memory_for_other_ranks_keys_depends_on_the_method);
    tcase_add_test(tc, a_rank_has_its_share_of_tokens_and_all_keys_and_weights);
    return tc;
}

static TCase *laws(void)
{
    TCase *tc = tcase_create("laws");
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_test(tc, flops_of_all_ranks_sum_to_those_of_one);
    tcase_add_test(tc, kept_bytes_of_all_ranks_sum_to_those_of_one);
    tcase_add_test(tc, no_placeholder_is_left_and_each_op_waits_for_an_earlier_one);
    tcase_add_test(tc, one_rank_exchanges_nothing);
    tcase_add_test(tc, a_ring_of_any_size_is_a_few_ops);
    tcase_add_test(tc, every_context_method_has_the_name_of_its_word);
    return tc;
}

static Suite *suite(void)
{
    Suite *s = suite_create("sim/plan/context");
    suite_add_tcase(s, by_hand());
    suite_add_tcase(s, laws());
    return s;
}

TEST_MAIN(suite)
