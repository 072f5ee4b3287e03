/* Compares the ops that selective recompute repeats, and the memory that it frees, with counts by
 * hand. */
#include "models/recompute.h"

#include "models/layer.h"
#include "sim/cost/piece.h"
#include "sim/plan/local.h"
#include "tests/testing.h"

#include <string.h>

/* The block of Llama 3 8B, with 2 bytes per value. */
enum { TOKENS = 512, HIDDEN = 4096, KV = 1024, FFN = 14336, HEADS = 32, BYTES = 2 };
static const double rounding = 1e-12;

static struct arena arena;

static struct model llama(void)
{
    struct model model = { .name = "block",
                           .layers = 2,
                           .hidden = HIDDEN,
                           .heads = HEADS,
                           .kv_heads = 8,
                           .ffn = FFN,
                           .vocab = 1024,
                           .seq = TOKENS,
                           .batch = 8,
                           .norm = NORM_RMS,
                           .activation = ACTIVATION_SWIGLU,
                           .positions = POSITION_ROTARY };
    struct err err = { 0 };
    ck_assert_msg(model_derive(&model, &err), "%s", err.msg);
    return model;
}

static struct ops forward_of(const struct model *model, const struct plan *plan)
{
    const struct layer_options options = { .flash_attention =
                                               plan->attention != PLAN_ATTENTION_UNFUSED,
                                           .dtype = DTYPE_BF16,
                                           .gradient_bytes = 4,
                                           .fusions = 1u << FUSION_NORM };
    return local_layer(rank_share_of(plan), model, TOKENS, &options, false, &arena).forward;
}

static struct replay replay_of(unsigned replays)
{
    struct model model = llama();
    struct plan plan = plan_default();
    struct ops forward = forward_of(&model, &plan);
    return ops_replay(&forward, replays, false, &arena);
}

static void release(void)
{
    arena_release(&arena);
}

/* `multiplied` is the number of weights of the recomputed products, which have 2 FLOPs per weight
 * and token. `freed_values` and `freed_statistics` are the values, and the bytes of statistics,
 * that are freed per token. */
static const struct {
    unsigned replays;
    double multiplied, freed_values, freed_statistics;
    int attentions; /* number of recomputed attention cores */
} parts[] = {
    { REPLAYS_CORE, 0, 0, 4 * HEADS, 1 },
    { 1u << REPLAY_MLP, 3.0 * HIDDEN *FFN, 2 * FFN + FFN, 0, 0 },
    { 1u << REPLAY_NORM, 0, 2 * HIDDEN, 2 * 4, 0 },
    { REPLAYS_CORE | 1u << REPLAY_MLP, 3.0 * HIDDEN *FFN, 2 * FFN + FFN, 4 * HEADS, 1 },
    { 1u << REPLAY_MLP | 1u << REPLAY_NORM, 3.0 * HIDDEN *FFN, 3 * FFN + 2 * HIDDEN, 8, 0 },
};

START_TEST(recomputing_a_part_frees_the_values_that_only_it_keeps)
{
    struct replay replay = replay_of(parts[_i].replays);
    double attention_flops = 4.0 * HEADS * TOKENS * TOKENS * (HIDDEN / HEADS) / 2;
    double flops = 2.0 * TOKENS * parts[_i].multiplied + parts[_i].attentions * attention_flops;
    double freed_bytes = TOKENS * (BYTES * parts[_i].freed_values + parts[_i].freed_statistics);
    ck_assert_double_eq_tol(ops_flops(replay.ops), flops, rounding * (1 + flops));
    ck_assert_double_eq(replay.freed_bytes, freed_bytes);
}
END_TEST

/* The output of the last product and its sum over the tensor ranks are not recomputed, as no
 * backward op reads them. */
START_TEST(what_the_backward_reads_is_made_without_the_last_product)
{
    struct model model = llama();
    struct plan plan = plan_default();
    struct ops forward = forward_of(&model, &plan);
    struct ops again = ops_read_again(&forward, &arena);
    double last_flops = 2.0 * TOKENS * FFN * HIDDEN;
    double flops = ops_flops(forward) - last_flops;
    ck_assert_double_eq_tol(ops_flops(again), flops, rounding * flops);
    plan.tp = 2;
    plan.sp = true;
    forward = forward_of(&model, &plan);
    again = ops_read_again(&forward, &arena);
    int sums = 0;
    for (int i = 0; i < again.count; i++)
        sums += again.at[i].kind == OP_REDUCE_SCATTER;
    ck_assert_int_eq(sums, 1);
}
END_TEST

/* A layer has seven products: queries, keys, values, projection, gate, up and down. Op-selective
 * recompute repeats every second of them: keys, projection and up. */
START_TEST(op_selective_recomputes_every_second_product)
{
    struct replay replay = replay_of(REPLAYS_PER_OP);
    double flops = 2.0 * TOKENS * HIDDEN * (KV + HIDDEN + FFN);
    ck_assert_double_eq_tol(ops_flops(replay.ops), flops, rounding * (1 + flops));
    for (int i = 0; i < replay.ops.count; i++) {
        ck_assert_int_ne(replay.ops.at[i].kind, OP_FLASH_ATTENTION);
        ck_assert_str_ne(replay.ops.at[i].name, "fc2");
        ck_assert_str_ne(replay.ops.at[i].name, "ffn_residual"); /* no op reads this value */
    }
}
END_TEST

START_TEST(op_selective_keeps_the_other_products_and_attention)
{
    struct model model = llama();
    struct plan plan = plan_default();
    struct ops forward = forward_of(&model, &plan);
    double saved_bytes = 0;
    for (int i = 0; i < forward.count; i++)
        saved_bytes += op_saved_bytes(&forward, &forward.at[i]);
    /* With op-selective recompute, the input, queries, values, attention's output with its
     * statistics, gate and down are kept. */
    double kept_bytes =
        TOKENS * (BYTES * (HIDDEN + HIDDEN + KV + HIDDEN + FFN + HIDDEN) + 4.0 * HEADS);
    struct replay replay = ops_replay(&forward, REPLAYS_PER_OP, false, &arena);
    ck_assert_double_eq(saved_bytes - replay.freed_bytes, kept_bytes);
}
END_TEST

/* With sequence parallelism, sums over ranks are kept, and gathered values are gathered again in
 * the backward. */
START_TEST(op_selective_keeps_sums_over_ranks)
{
    struct model model = llama();
    struct plan plan = plan_default();
    int gathered = 0;
    plan.tp = 4;
    plan.sp = true;
    struct ops forward = forward_of(&model, &plan);
    struct replay replay = ops_replay(&forward, REPLAYS_PER_OP, false, &arena);
    for (int i = 0; i < replay.ops.count; i++) {
        const struct op *op = &replay.ops.at[i];
        ck_assert_int_ne(op->kind, OP_REDUCE_SCATTER);
        gathered += op->kind == OP_ALL_GATHER;
        ck_assert_int_lt(op->after, i);
    }
    ck_assert_int_eq(gathered, 2);
}
END_TEST

static double kept_bytes(const struct ops *forward, const struct replay *replay)
{
    double bytes = 0;
    for (int i = 0; i < forward->operands->num_values; i++)
        bytes += replay->kept_of[i] * forward->operands->values[i].bytes;
    return bytes;
}

/* The executor computes the rotary embedding in place, so it has one joint product of queries, keys
 * and values, and one of gate and up, and keeps both. Of the four products, op-selective recompute
 * repeats only the second (the projection). It leaves out the fourth (down), as no later op reads
 * its result. The rotary embedding overwrites queries, keys and values. */
START_TEST(in_place_op_selective_keeps_whole_products)
{
    struct model model = llama();
    struct plan plan = plan_default();
    struct ops forward = forward_of(&model, &plan);
    struct replay replay = ops_replay(&forward, REPLAYS_PER_OP, true, &arena);
    double flops = 2.0 * TOKENS * HIDDEN * HIDDEN;
    ck_assert_double_eq_tol(ops_flops(replay.ops), flops, rounding * flops);
    /* The input, the joint product of queries, keys and values, attention's output with its
     * statistics, and the joint product of gate and up are kept. */
    double bytes =
        TOKENS * (BYTES * (HIDDEN + (HIDDEN + 2.0 * KV) + HIDDEN + 2.0 * FFN) + 4.0 * HEADS);
    ck_assert_double_eq(kept_bytes(&forward, &replay), bytes);
    for (int i = 0; i < forward.count; i++)
        ck_assert(!(replay.is_again[i] && forward.at[i].kind == OP_ROTARY));
}
END_TEST

static const struct {
    unsigned replays;
    bool in_place, is_unfused;
} sums[] = {
    { REPLAYS_CORE, false, false },  { REPLAYS_CORE, false, true },  { REPLAYS_CORE, true, true },
    { REPLAYS_PER_OP, true, false }, { REPLAYS_PER_OP, true, true },
};

/* The executor keeps exactly the values that the memory model counts. */
START_TEST(kept_bytes_equal_all_bytes_minus_freed_bytes)
{
    struct model model = llama();
    struct plan plan = plan_default();
    plan.attention = sums[_i].is_unfused ? PLAN_ATTENTION_UNFUSED : PLAN_ATTENTION_FLASH;
    struct ops forward = forward_of(&model, &plan);
    double saved_bytes = 0;
    for (int i = 0; i < forward.count; i++)
        saved_bytes += op_saved_bytes(&forward, &forward.at[i]);
    struct replay replay = ops_replay(&forward, sums[_i].replays, sums[_i].in_place, &arena);
    ck_assert_double_gt(replay.freed_bytes, 0);
    ck_assert_double_eq(kept_bytes(&forward, &replay), saved_bytes - replay.freed_bytes);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("replay");
    TCase *blocks = tcase_create("blocks");
    tcase_add_checked_fixture(blocks, NULL, release);
    tcase_add_loop_test(blocks, recomputing_a_part_frees_the_values_that_only_it_keeps, 0,
                        LENGTH(parts));
    tcase_add_test(blocks, what_the_backward_reads_is_made_without_the_last_product);
    tcase_add_test(blocks, op_selective_recomputes_every_second_product);
    tcase_add_test(blocks, op_selective_keeps_the_other_products_and_attention);
    tcase_add_test(blocks, op_selective_keeps_sums_over_ranks);
    tcase_add_test(blocks, in_place_op_selective_keeps_whole_products);
    tcase_add_loop_test(blocks, kept_bytes_equal_all_bytes_minus_freed_bytes, 0, LENGTH(sums));
    suite_add_tcase(s, blocks);
    return s;
}

TEST_MAIN(suite)
