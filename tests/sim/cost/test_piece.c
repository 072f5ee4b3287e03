#include "tests/sim/cost/wires.h"
#include "tests/testing.h"

#include "sim/cost/compute.h"
#include "sim/cost/piece.h"
#include "sim/cost/straggler.h"
#include "sim/engine/data_parallel.h"
#include "tests/sim/named.h"

#include <math.h>

/* Combinations of model, machine and stack with different op lists (sequences of operations of a
 * layer). */
struct setting {
    const char *cluster, *stack, *model;
};
static const struct setting settings[] = {
    { "dgx-a100-80g", "megatron-2021", "gpt3-175b" },
    { "dgx-h100", "megatron-core", "llama3-8b" },
    { "a100-pcie-8", "torch-ddp", "gpt3-1.3b" },
    { "dgx-b200", "xla", "llama2-70b" },
    { "dgx1-v100", "megatron-deepspeed", "bloom-176b" },
    { "p5-h100", "nemo", "qwen2.5-7b" },
};
enum { NUM_SETTINGS = LENGTH(settings) };

static struct system machine;
static struct model model;
static struct arena arena;

static void load(int i)
{
    struct err err = { 0 };
    bool ok = system_load(settings[i].cluster, settings[i].stack, 8, &machine, &err) &&
              model_load(settings[i].model, &model, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
}

static void tear_down(void)
{
    system_release(&machine);
    arena_release(&arena);
}

static struct plan tensor_plan(int tp, bool sp, bool overlap)
{
    struct plan plan = plan_default();
    plan.tp = tp;
    plan.sp = sp;
    plan.overlaps_given = true;
    plan.overlaps = overlap ? 1u << OVERLAP_TP : 0;
    if (machine.gpu.peak_flops_per_s[DTYPE_BF16] <= 0) {
        plan.precision = PRECISION_FP16;
        plan.gradient_dtype = DTYPE_FP16;
    }
    return plan;
}

static struct pieces cost(const struct plan *plan)
{
    return pieces_cost(&machine, &model, plan, &arena);
}

enum { NUM_LISTS = 6 };
static const struct list_cost *list(const struct pieces *pieces, int i)
{
    const struct list_cost *lists[NUM_LISTS] = {
        &pieces->at[0].forward,
        &pieces->at[0].backward,
        &pieces->at[PIECE_EMBEDDING].forward,
        &pieces->at[PIECE_EMBEDDING].backward,
        &pieces->at[PIECE_HEAD].forward,
        &pieces->at[PIECE_HEAD].backward,
    };
    return lists[i];
}

/* The plans have tp 2, 4 and 8, with and without sequence parallelism. */
enum { NUM_SPLITS = 6 };
static struct plan split(int i, bool overlap)
{
    return tensor_plan(2 << i % 3, i >= 3, overlap);
}

START_TEST(a_lists_time_is_compute_plus_exposed_communication)
{
    load(_i);
    for (int i = 0; i < NUM_SPLITS; i++) {
        struct plan plan = split(i, true);
        struct pieces pieces = cost(&plan);
        for (int l = 0; l < NUM_LISTS; l++) {
            const struct list_cost *c = list(&pieces, l);
            ck_assert_double_eq_tol(c->total_s, c->compute_s + c->comm_s, 1e-12 * c->total_s);
            ck_assert_double_ge(c->comm_s, -1e-12 * c->total_s);
        }
    }
}
END_TEST

/* A layer's forward has two collectives. Before each of them, ranks wait for the slowest of
 * them. */
START_TEST(tensor_ranks_wait_for_each_other_at_each_collective)
{
    load(_i);
    struct plan plan = tensor_plan(4, false, false), one = tensor_plan(1, false, false);
    struct list_cost even = cost(&plan).at[0].forward;
    double alone_s = cost(&one).at[0].forward.total_s;
    machine.profile.drift_s = 1e-5;
    struct list_cost drifting = cost(&plan).at[0].forward;
    double most_s = 2 * drift_wait_s(1e-5, even.compute_s / 2, 4);
    double wait_s = drifting.comm_s - even.comm_s;
    ck_assert_double_eq(drifting.compute_s, even.compute_s);
    ck_assert_double_gt(wait_s, most_s / 2);
    ck_assert_double_le(wait_s, most_s * (1 + 1e-9));
    ck_assert_double_eq(cost(&one).at[0].forward.total_s, alone_s);
}
END_TEST

START_TEST(one_tensor_rank_exposes_nothing)
{
    load(_i);
    struct plan plan = tensor_plan(1, false, true);
    struct pieces pieces = cost(&plan);
    for (int l = 0; l < NUM_LISTS; l++)
        ck_assert_double_eq_tol(list(&pieces, l)->comm_s, 0, 1e-12 * list(&pieces, l)->total_s);
}
END_TEST

/* Without overlap, a list of ops runs in series: its total is the sum of all its ops. */
START_TEST(overlapped_time_lies_between_the_longer_and_the_sum)
{
    load(_i);
    for (int i = 0; i < NUM_SPLITS; i++) {
        struct plan serial_plan = split(i, false);
        struct plan plan = split(i, true);
        struct pieces serial = cost(&serial_plan);
        struct pieces overlapped = cost(&plan);
        for (int l = 0; l < NUM_LISTS; l++) {
            const struct list_cost *s = list(&serial, l);
            const struct list_cost *o = list(&overlapped, l);
            ck_assert_double_eq(o->compute_s, s->compute_s);
            ck_assert_double_le(o->total_s, s->total_s * (1 + 1e-12));
            ck_assert_double_ge(o->total_s, fmax(s->compute_s, s->comm_s) * (1 - 1e-12));
        }
        ck_assert_double_lt(overlapped.at[0].backward.total_s, serial.at[0].backward.total_s);
    }
}
END_TEST

/* While compute and collectives overlap, they slow each other down so much that running them one
 * after the other would be faster. */
START_TEST(overlap_exceeds_the_sum_at_most_by_the_slowdown)
{
    load(_i);
    machine.profile.overlap_compute_slowdown = 3;
    machine.profile.overlap_comm_slowdown = 4;
    for (int i = 0; i < NUM_SPLITS; i++) {
        struct plan serial_plan = split(i, false);
        struct plan plan = split(i, true);
        struct pieces serial = cost(&serial_plan);
        struct pieces overlapped = cost(&plan);
        for (int l = 0; l < NUM_LISTS; l++)
            ck_assert_double_le(list(&overlapped, l)->total_s,
                                4 * list(&serial, l)->total_s * (1 + 1e-12));
    }
}
END_TEST

static double op_alone_s(const struct op *op)
{
    enum attention_kernel attention = stack_attention(&machine.stack, &machine.gpu);
    double time_s = op_s(&machine.gpu, &machine.profile, attention, op);
    return op->kind == OP_GEMM ? time_s / machine.stack.product_efficiency : time_s;
}

static double part_of_alone_s(const struct op *op)
{
    if (op->kind == OP_GEMM)
        return 0.9;
    if (op->kind != OP_FLASH_ATTENTION)
        return 1;
    return op->pass == PASS_FORWARD ? 0.7 : 0.6;
}

/* On one rank the ops run one after the other. With this stack, products reach 90 % of their speed
 * in isolation, and attention 70 % (forward) and 60 % (backward). */
START_TEST(without_overlap_a_list_takes_the_sum_of_its_ops)
{
    load(_i);
    machine.stack.product_efficiency = 0.9;
    machine.stack.attention_forward_efficiency = 0.7;
    machine.stack.attention_backward_efficiency = 0.6;
    struct plan plan = tensor_plan(1, false, false);
    struct piece_cost layer = cost(&plan).at[0];
    enum attention_kernel attention = plan_attention_kernel(&plan, &machine);
    struct layer_options options = { .flash_attention = attention != ATTENTION_UNFUSED,
                                     .fusions = machine.stack.fusions,
                                     .unfused = &machine.stack.unfused,
                                     .norm_reads_twice = machine.stack.norm_reads_twice,
                                     .dtype = precision_dtype(plan.precision),
                                     .gradient_bytes =
                                         dtype_bytes((enum dtype)plan.gradient_dtype) };
    struct local_ops lists =
        local_layer(rank_share_of(&plan), &model, model.seq, &options, false, &arena);
    const struct ops ops[] = { lists.forward, lists.backward };
    const struct list_cost *costs[] = { &layer.forward, &layer.backward };
    for (int l = 0; l < 2; l++) {
        double sum_s = 0;
        for (int i = 0; i < ops[l].count; i++)
            if (!op_is_collective(ops[l].at[i].kind))
                sum_s += op_s(&machine.gpu, &machine.profile, attention, &ops[l].at[i]) /
                         part_of_alone_s(&ops[l].at[i]);
        ck_assert_double_eq_tol(costs[l]->total_s, sum_s, 1e-12 * sum_s);
    }
}
END_TEST

/* Without sequence parallelism, an all-reduce follows the input-gradient product of a layer and
 * overlaps its weight-gradient product. All-reduce and product slow each other down; all other ops
 * run in series. */
START_TEST(an_all_reduce_overlapping_a_weight_gradient_contends_with_it)
{
    load(_i);
    struct plan serial_plan = tensor_plan(8, false, false);
    struct plan plan = tensor_plan(8, false, true);
    struct pieces serial = cost(&serial_plan);
    struct pieces overlapped = cost(&plan);
    bool flash = plan_attention_kernel(&plan, &machine) != ATTENTION_UNFUSED;
    struct layer_options options = { .flash_attention = flash,
                                     .fusions = machine.stack.fusions,
                                     .unfused = &machine.stack.unfused,
                                     .dtype = precision_dtype(plan.precision),
                                     .gradient_bytes =
                                         dtype_bytes((enum dtype)plan.gradient_dtype) };
    struct ops ops =
        local_layer(rank_share_of(&plan), &model, model.seq, &options, false, &arena).backward;
    struct comm_group tensor = network_plan_group(&machine, &plan, TENSOR_RANKS);
    double saved_s = 0;
    int pairs = 0;
    for (int i = 0; i + 1 < ops.count; i++) {
        const struct op *weight = &ops.at[i + 1];
        if (ops.at[i].kind != OP_ALL_REDUCE || weight->kind != OP_GEMM ||
            weight->pass != PASS_BACKWARD_WEIGHT)
            continue;
        double comm_s = collective_s(&tensor, COLLECTIVE_ALL_REDUCE, ops.at[i].comm_bytes);
        double compute_s = op_alone_s(weight);
        saved_s += compute_s + comm_s - overlapped_s(&machine.profile, compute_s, comm_s);
        pairs++;
    }
    ck_assert_int_eq(pairs, 2); /* the two products with an all-reduce are qkv and fc1 */
    double expected_s = serial.at[0].backward.total_s - saved_s;
    ck_assert_double_eq_tol(overlapped.at[0].backward.total_s, expected_s, 1e-9 * expected_s);
}
END_TEST

/* Products and attention are split; no work is repeated unless there are fewer key and value heads
 * than ranks. */
START_TEST(tensor_ranks_share_the_flops_of_a_layer)
{
    load(_i);
    struct plan whole_plan = tensor_plan(1, false, false);
    struct pieces whole = cost(&whole_plan);
    for (int i = 0; i < NUM_SPLITS; i++) {
        struct plan plan = split(i, false);
        struct pieces pieces = cost(&plan);
        double flops = plan.tp * pieces.at[0].forward.flops;
        ck_assert_double_ge(flops, whole.at[0].forward.flops * (1 - 1e-12));
        if (plan.tp <= model.kv_heads)
            ck_assert_double_eq_tol(flops / whole.at[0].forward.flops, 1, 1e-12);
    }
}
END_TEST

START_TEST(the_attention_core_is_part_of_forward_time_and_kept_bytes)
{
    load(_i);
    struct plan plan = tensor_plan(4, false, false);
    for (int attention = PLAN_ATTENTION_FLASH; attention <= PLAN_ATTENTION_UNFUSED; attention++) {
        plan.attention = attention;
        struct piece_cost layer = cost(&plan).at[0];
        ck_assert_double_gt(layer.replay.total_s, 0);
        ck_assert_double_lt(layer.replay.total_s, layer.forward.total_s);
        ck_assert_double_eq(layer.replay.comm_s, 0);
        ck_assert_double_gt(layer.replayed_bytes, 0);
        ck_assert_double_lt(layer.replayed_bytes, layer.saved_bytes);
    }
}
END_TEST

START_TEST(sequence_parallelism_keeps_less_and_splits_the_checkpoint)
{
    load(_i);
    struct plan plain_plan = tensor_plan(4, false, false);
    struct plan plan = tensor_plan(4, true, false);
    struct piece_cost plain = cost(&plain_plan).at[0];
    struct piece_cost split = cost(&plan).at[0];
    ck_assert_double_lt(split.saved_bytes, plain.saved_bytes);
    ck_assert_double_eq(split.input_bytes, plain.input_bytes / 4);
}
END_TEST

/* Products of a few rows fill fewer tiles, and each of them reads the weights. */
START_TEST(logits_in_row_blocks_take_one_more_product_and_less_memory)
{
    load(_i);
    struct plan plan = tensor_plan(2, true, false);
    struct pieces once = cost(&plan);
    machine.stack.memory.logits_rows = 300;
    struct pieces runs = cost(&plan);
    double product_flops = 2 * once.logits * model.hidden;
    double element_bytes = 2, rows = model.seq, chunks = ceil(rows / 300);
    ck_assert_double_eq(runs.at[PIECE_HEAD].forward.flops, once.at[PIECE_HEAD].forward.flops);
    ck_assert_double_eq_tol(runs.at[PIECE_HEAD].backward.flops - once.at[PIECE_HEAD].backward.flops,
                            product_flops, 1e-9 * product_flops);
    ck_assert_double_gt(runs.at[PIECE_HEAD].forward.total_s, once.at[PIECE_HEAD].forward.total_s);
    ck_assert_double_gt(runs.at[PIECE_HEAD].backward.total_s,
                        once.at[PIECE_HEAD].backward.total_s +
                            0.5 * once.at[PIECE_HEAD].forward.compute_s);
    ck_assert_double_gt(runs.at[PIECE_HEAD].forward.kernels, once.at[PIECE_HEAD].forward.kernels);
    ck_assert_double_eq(once.logits_block_bytes, 0);
    ck_assert_double_eq_tol(runs.logits_block_bytes,
                            ceil(rows / chunks) * once.logits / rows *
                                    machine.stack.memory.logits_bytes +
                                2 * rows * model.hidden * element_bytes,
                            1);
    ck_assert_double_eq(runs.at[PIECE_HEAD].saved_bytes, once.at[PIECE_HEAD].saved_bytes);
    ck_assert_double_eq(runs.at[0].backward.total_s, once.at[0].backward.total_s);
}
END_TEST

/* A split backward reads the gradients of the logits twice, so they cannot be computed in row
 * blocks. */
START_TEST(schedules_with_split_backward_compute_logits_at_once)
{
    struct stack stack = { .memory.logits_rows = 512 };
    struct plan whole = plan_of("pp4", &arena), halves = plan_of("pp4 schedule=zb-h1", &arena);
    ck_assert_double_eq(plan_logits_rows(&whole, &stack), 512);
    ck_assert_double_eq(plan_logits_rows(&halves, &stack), 0);
}
END_TEST

/* A module that predicts a later token (MTP) has an embedding and a head, but shares their weights
 * with the model. */
START_TEST(a_multi_token_module_adds_an_embedding_and_a_head)
{
    load(_i);
    model.mtp = 1;
    struct plan plan = tensor_plan(2, false, false);
    plan.pp = 4;
    plan_set_schedule(&plan, "zb-h1");
    struct pieces pieces = cost(&plan);
    const struct piece_cost *first = &pieces.at[PIECE_EMBEDDING], *last = &pieces.at[PIECE_HEAD];
    static const int ends[] = { PIECE_LATER_EMBEDDING, PIECE_LATER_HEAD };
    ck_assert_double_gt(last->waiting_bytes, 0);
    for (int i = 0; i < 2; i++) {
        const struct piece_cost *end = &pieces.at[ends[i]], *of = i == 0 ? first : last;
        ck_assert_double_eq(end->saved_bytes, of->saved_bytes);
        ck_assert_double_eq(end->waiting_bytes, of->waiting_bytes);
        ck_assert_double_eq(end->forward.total_s, of->forward.total_s);
        ck_assert_double_eq(end->backward.total_s, of->backward.total_s);
        ck_assert_double_eq(end->weight.flops, of->weight.flops);
        ck_assert_double_eq(end->forward.kernels, of->forward.kernels);
        ck_assert_double_lt(end->parameters, 0.01 * first->parameters);
    }
}
END_TEST

START_TEST(the_plans_overlap_words_override_the_stacks)
{
    struct stack stack = { .overlaps = 1u << OVERLAP_GRAD };
    struct plan plan = plan_default();
    ck_assert(plan_overlaps(&plan, &stack, OVERLAP_GRAD));
    ck_assert(!plan_overlaps(&plan, &stack, OVERLAP_P2P));
    plan.overlaps_given = true;
    plan.overlaps = 1u << OVERLAP_P2P;
    ck_assert(!plan_overlaps(&plan, &stack, OVERLAP_GRAD));
    ck_assert(plan_overlaps(&plan, &stack, OVERLAP_P2P));
}
END_TEST

START_TEST(collectives_overlap_only_ops_that_are_launched_ahead)
{
    load(1);
    struct plan beside = tensor_plan(8, true, true), alone = tensor_plan(8, true, false);
    double hidden_s = cost(&beside).at[0].backward.total_s;
    double shown_s = cost(&alone).at[0].backward.total_s;
    ck_assert_double_lt(hidden_s, shown_s);
    machine.stack.host.launches_ahead = false;
    ck_assert_double_eq(cost(&beside).at[0].backward.total_s, shown_s);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("piece");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_loop_test(tc, a_lists_time_is_compute_plus_exposed_communication, 0, NUM_SETTINGS);
    tcase_add_loop_test(tc, tensor_ranks_wait_for_each_other_at_each_collective, 0, NUM_SETTINGS);
    tcase_add_loop_test(tc, one_tensor_rank_exposes_nothing, 0, NUM_SETTINGS);
    tcase_add_loop_test(tc, overlapped_time_lies_between_the_longer_and_the_sum, 0, NUM_SETTINGS);
    tcase_add_loop_test(tc, overlap_exceeds_the_sum_at_most_by_the_slowdown, 0, NUM_SETTINGS);
    tcase_add_loop_test(tc, a_multi_token_module_adds_an_embedding_and_a_head, 0, NUM_SETTINGS);
    tcase_add_loop_test(tc, without_overlap_a_list_takes_the_sum_of_its_ops, 0, NUM_SETTINGS);
    tcase_add_loop_test(tc, an_all_reduce_overlapping_a_weight_gradient_contends_with_it, 0,
                        NUM_SETTINGS);
    tcase_add_loop_test(tc, tensor_ranks_share_the_flops_of_a_layer, 0, NUM_SETTINGS);
    tcase_add_loop_test(tc, the_attention_core_is_part_of_forward_time_and_kept_bytes, 0,
                        NUM_SETTINGS);
    tcase_add_loop_test(tc, sequence_parallelism_keeps_less_and_splits_the_checkpoint, 0,
                        NUM_SETTINGS);
    tcase_add_loop_test(tc, logits_in_row_blocks_take_one_more_product_and_less_memory, 0,
                        NUM_SETTINGS);
    TCase *plain = tcase_create("plan");
    tcase_add_test(plain, schedules_with_split_backward_compute_logits_at_once);
    tcase_add_test(plain, the_plans_overlap_words_override_the_stacks);
    Suite *s = suite_create("sim/cost/piece");
    tcase_add_test(tc, collectives_overlap_only_ops_that_are_launched_ahead);
    suite_add_tcase(s, tc);
    suite_add_tcase(s, plain);
    return s;
}

TEST_MAIN(suite)
