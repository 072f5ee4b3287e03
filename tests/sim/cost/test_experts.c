/* Tests the products, messages and times of blocks with experts. */
#include "base/statistics.h"
#include "models/blocks.h"
#include "sim/cost/compute.h"
#include "sim/cost/piece.h"
#include "sim/engine/simulate.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/collective/nccl_groups.h"
#include "tests/sim/machine.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

static struct arena arena;

static void tear_down(void)
{
    machine_release();
    arena_release(&arena);
}

/* --- one layer, measured ------------------------------------------------------------------------
 */

/* The ops of the routed experts, without norm, residual and shared expert, as an op list (sequence
 * of operations) that runs in series. */
static struct ops of_experts(struct ops ops)
{
    struct ops some = ops;
    some.at = ARENA_ARRAY(&arena, struct op, (size_t)ops.count);
    some.count = 0;
    for (int i = 0; i < ops.count; i++) {
        enum op_region region = ops.at[i].region;
        if (region != REGION_EXPERTS && region != REGION_EXPERT_ACTIVATION)
            continue;
        some.at[some.count] = ops.at[i];
        some.at[some.count].after = some.count - 1;
        some.count++;
    }
    return some;
}

/* Megatron-LM's functional tests moe_perf (golden values, tests/functional_tests): one layer with
 * experts runs on 8 H100 with ep8, 4,096 tokens per rank, forced balance, plain gelu and no shared
 * expert. */
enum { MIXTRAL, DEEPSEEK, NUM_LAYERS };
static const struct {
    int hidden, expert_ffn, experts, topk, groups, topk_groups;
} layers[NUM_LAYERS] = {
    [MIXTRAL] = { 4096, 14336, 8, 2, 0, 0 },
    [DEEPSEEK] = { 7168, 2048, 32, 8, 8, 4 },
};
static const struct {
    int layer;
    enum precision precision;
    enum dispatcher_kind dispatcher;
    double forward_ms, backward_ms;
} measured[] = {
    { MIXTRAL, PRECISION_BF16, DISPATCHER_ALL_TO_ALL, 4.327, 7.684 },
    { MIXTRAL, PRECISION_BF16, DISPATCHER_DEEPEP, 4.636, 7.854 },
    { MIXTRAL, PRECISION_BF16, DISPATCHER_HYBRIDEP, 4.343, 7.741 },
    { MIXTRAL, PRECISION_FP8_BLOCK, DISPATCHER_ALL_TO_ALL, 3.788, 6.618 },
    { MIXTRAL, PRECISION_FP8_BLOCK, DISPATCHER_DEEPEP, 4.101, 6.827 },
    { MIXTRAL, PRECISION_FP8_BLOCK, DISPATCHER_HYBRIDEP, 3.701, 6.572 },
    { DEEPSEEK, PRECISION_BF16, DISPATCHER_ALL_TO_ALL, 7.119, 10.483 },
    { DEEPSEEK, PRECISION_BF16, DISPATCHER_DEEPEP, 5.682, 9.055 },
    { DEEPSEEK, PRECISION_BF16, DISPATCHER_HYBRIDEP, 5.391, 8.795 },
    { DEEPSEEK, PRECISION_FP8_BLOCK, DISPATCHER_ALL_TO_ALL, 7.609, 10.126 },
    { DEEPSEEK, PRECISION_FP8_BLOCK, DISPATCHER_DEEPEP, 6.035, 8.602 },
    { DEEPSEEK, PRECISION_FP8_BLOCK, DISPATCHER_HYBRIDEP, 5.143, 7.687 },
};

static struct piece_cost layer_cost(size_t i)
{
    int layer = measured[i].layer;
    struct model model = model_of("mixtral-8x7b");
    model.hidden = layers[layer].hidden;
    model.expert_ffn = layers[layer].expert_ffn;
    model.experts = layers[layer].experts;
    model.topk = layers[layer].topk;
    model.expert_groups = layers[layer].groups;
    model.topk_groups = layers[layer].topk_groups;
    model.activation = ACTIVATION_GELU;
    model.seq = 4096;
    struct plan plan = plan_default();
    plan.ep = 8;
    plan.dp = 8;
    plan.precision = (int)measured[i].precision;
    machine.stack.dispatcher = (int)measured[i].dispatcher;
    struct layer_options options = plan_layer_options(&plan, &machine);
    struct local_ops local =
        local_layer(rank_share_of(&plan), &model, model.seq, &options, false, &arena);
    local.forward = of_experts(local.forward);
    local.backward = of_experts(local.backward);
    return lists_cost(&machine, &plan, local, 0, &arena);
}

static double error_of(double predicted_s, double measured_ms)
{
    return fabs(log(predicted_s * 1e3 / measured_ms));
}

/* No constant was fitted on these times. DeepSeek's layer is predicted within 5.3 %. Mixtral's wide
 * products are predicted up to 13 % too fast in bf16, and up to 18.5 % in fp8. */
START_TEST(an_expert_layer_takes_the_measured_time)
{
    double errors[2 * LENGTH(measured)];
    machine_load("dgx-h100", 8);
    for (size_t i = 0; i < LENGTH(measured); i++) {
        struct piece_cost cost = layer_cost(i);
        bool is_bf16 = measured[i].precision == PRECISION_BF16;
        double most = measured[i].layer == DEEPSEEK ? 0.053 : is_bf16 ? 0.135 : 0.185;
        errors[2 * i] = error_of(cost.forward.total_s, measured[i].forward_ms);
        errors[2 * i + 1] = error_of(cost.backward.total_s, measured[i].backward_ms);
        ck_assert_double_le(errors[2 * i], most);
        ck_assert_double_le(errors[2 * i + 1], most);
    }
    numbers_sort(errors, LENGTH(errors));
    ck_assert_double_le(sorted_quantile(errors, (int)LENGTH(errors), 0.5), 0.08);
}
END_TEST

/* Seconds that the quantised weight-gradient products of Mixtral's layer take. */
static double weight_gradients_s(enum precision precision)
{
    struct model model = model_of("mixtral-8x7b");
    struct plan plan = plan_of("tp1 ep8 mb1", &arena);
    plan.precision = (int)precision;
    struct layer_options options = plan_layer_options(&plan, &machine);
    struct local_ops local =
        local_layer(rank_share_of(&plan), &model, 4096, &options, false, &arena);
    struct ops some = { .at = ARENA_ARRAY(&arena, struct op, (size_t)local.backward.count),
                        .operands = local.backward.operands };
    for (int i = 0; i < local.backward.count; i++) {
        struct op op = local.backward.at[i];
        if (op.kind != OP_GEMM || op.pass != PASS_BACKWARD_WEIGHT || op.dtype != DTYPE_FP8)
            continue;
        op.after = some.count - 1;
        some.at[some.count++] = op;
    }
    local.forward.count = 0;
    local.backward = some;
    return lists_cost(&machine, &plan, local, 0, &arena).backward.total_s;
}

/* With scales per block, products run at 0.85 of the rate with one scale per tensor. In weight
 * gradients each value of the result takes 6/128 instead of 5/128 cycles. */
START_TEST(weight_gradients_with_two_scales_per_sum_are_slower)
{
    machine_load("dgx-h100", 8);
    ck_assert_double_eq_tol(weight_gradients_s(PRECISION_FP8_BLOCK) /
                                weight_gradients_s(PRECISION_FP8_DELAYED),
                            6.0 / 5 / 0.85, 1e-6);
}
END_TEST

/* --- rates of dispatchers -------------------------------------------------------------------- */

/* GB/s that one rank sends, from DeepEP's docs/legacy.md and docs/README_Hybrid-EP.md. The rows for
 * ranks within one NVLink domain also have the domain's bandwidth. */
static const struct rate {
    enum dispatcher_kind kind;
    enum gpu_arch arch;
    int ranks, nodes;
    double link_gb_per_s, dispatch_gb_per_s, combine_gb_per_s;
} rates[] = {
    { DISPATCHER_DEEPEP, ARCH_HOPPER, 8, 1, 200, 153, 158 },
    { DISPATCHER_DEEPEP, ARCH_HOPPER, 16, 2, 200, 43, 43 },
    { DISPATCHER_DEEPEP, ARCH_HOPPER, 32, 4, 200, 58, 57 },
    { DISPATCHER_DEEPEP, ARCH_HOPPER, 64, 8, 200, 51, 50 },
    { DISPATCHER_DEEPEP, ARCH_BLACKWELL, 8, 1, 900, 494, 420 },
    { DISPATCHER_HYBRIDEP, ARCH_HOPPER, 8, 1, 900, 536, 531 },
    { DISPATCHER_HYBRIDEP, ARCH_HOPPER, 16, 2, 450, 58, 57 },
    { DISPATCHER_HYBRIDEP, ARCH_HOPPER, 32, 4, 450, 47, 51 },
    { DISPATCHER_HYBRIDEP, ARCH_HOPPER, 64, 8, 450, 41, 48 },
    { DISPATCHER_HYBRIDEP, ARCH_BLACKWELL, 8, 1, 900, 546, 569 },
    { DISPATCHER_HYBRIDEP, ARCH_BLACKWELL, 16, 1, 900, 523, 522 },
    { DISPATCHER_HYBRIDEP, ARCH_BLACKWELL, 24, 1, 900, 507, 484 },
    { DISPATCHER_HYBRIDEP, ARCH_BLACKWELL, 32, 1, 900, 484, 465 },
    { DISPATCHER_HYBRIDEP, ARCH_BLACKWELL, 36, 1, 900, 479, 448 },
    /* cases between and beyond the measured ones: twice the NVLink bandwidth, and other numbers of
     * ranks */
    { DISPATCHER_DEEPEP, ARCH_HOPPER, 8, 1, 400, 306, 316 },
    { DISPATCHER_DEEPEP, ARCH_HOPPER, 4, 1, 200, 153, 158 },
    { DISPATCHER_DEEPEP, ARCH_HOPPER, 128, 16, 400, 51, 50 },
    /* 12 ranks lie between 8 and 16, at log2(12 / 8) = 0.5849625 of the way from 546 to 523 and
     * from 569 to 522 */
    { DISPATCHER_HYBRIDEP, ARCH_BLACKWELL, 12, 1, 900, 532.5458625, 541.5067625 },
};

/* Each token goes to one expert, so each of a row's 1e4 bytes is sent once. */
static double row_gb_per_s(const struct rate *rate, bool is_combine)
{
    struct comm_group group = { .num_ranks = rate->ranks,
                                .num_nodes = rate->nodes,
                                .arch = rate->arch,
                                .link_bytes_per_s = 1e9 * rate->link_gb_per_s };
    struct dispatch few = { .row_bytes = 1e4,
                            .rows = 1e3,
                            .choice = { .experts = 64, .topk = 1 },
                            .is_combine = is_combine };
    struct dispatch many = few;
    many.rows = 1e6;
    double more_s = dispatch_s(rate->kind, &group, &many) - dispatch_s(rate->kind, &group, &few);
    return (many.rows - few.rows) * few.row_bytes / more_s / 1e9;
}

START_TEST(a_dispatch_has_the_rate_of_its_source)
{
    for (size_t i = 0; i < LENGTH(rates); i++) {
        ck_assert_double_eq_tol(row_gb_per_s(&rates[i], false), rates[i].dispatch_gb_per_s, 1e-6);
        ck_assert_double_eq_tol(row_gb_per_s(&rates[i], true), rates[i].combine_gb_per_s, 1e-6);
    }
}
END_TEST

/* Each token chooses 2 experts, so 1,000 rows are 500 tokens of 4,096 bytes on each rank. The host
 * waits 20 us for the counts of rows. */
START_TEST(gathered_tokens_are_those_of_all_ranks)
{
    struct comm_group group = nccl_groups[A100_NODE];
    struct dispatch dispatch = { .row_bytes = 4096,
                                 .rows = 1000,
                                 .choice = { .experts = 16, .topk = 2 } };
    double bytes = 500.0 * 4096 * group.num_ranks;
    ck_assert_double_eq(dispatch_s(DISPATCHER_ALL_GATHER, &group, &dispatch),
                        collective_s(&group, COLLECTIVE_ALL_GATHER, bytes));
    dispatch.is_combine = true;
    double combined_s = collective_s(&group, COLLECTIVE_REDUCE_SCATTER, bytes);
    ck_assert_double_eq(dispatch_s(DISPATCHER_ALL_GATHER, &group, &dispatch), combined_s);
    dispatch.waits = true;
    ck_assert_double_eq_tol(dispatch_s(DISPATCHER_ALL_GATHER, &group, &dispatch),
                            combined_s + 20e-6, 1e-12);
    dispatch.rows = 0;
    ck_assert_double_eq(dispatch_s(DISPATCHER_ALL_GATHER, &group, &dispatch), 0);
    dispatch.rows = 1000;
    group.num_ranks = 1;
    ck_assert_double_eq(dispatch_s(DISPATCHER_DEEPEP, &group, &dispatch), 0);
}
END_TEST

/* With many experts per token on few ranks, NCCL's exchange of rows takes longest. Copies make
 * DeepEP slower than hybrid-EP. */
START_TEST(with_many_choices_dispatchers_are_ordered_by_time)
{
    machine_load("dgx-h100", 8);
    for (size_t i = 6; i < LENGTH(measured); i += 3) {
        double time_s[3];
        for (size_t j = 0; j < 3; j++)
            time_s[j] = layer_cost(i + j).forward.total_s;
        ck_assert_double_gt(time_s[0], time_s[1]);
        ck_assert_double_gt(time_s[1], time_s[2]);
    }
}
END_TEST

/* With fp8, rows are copied to aligned blocks and back. There are two copies in each direction, and
 * each reads 2 bytes and writes 2 per value. With hybrid-EP, rows arrive in such blocks, and bf16
 * needs no blocks. */
START_TEST(rows_are_copied_for_alignment)
{
    static const size_t copied[] = { 3, 4, 9, 10 }, uncopied[] = { 0, 1, 2, 5, 6, 7, 8, 11 };
    machine_load("dgx-h100", 8);
    for (size_t i = 0; i < LENGTH(copied) + LENGTH(uncopied); i++) {
        bool is_copied = i < LENGTH(copied);
        size_t row = is_copied ? copied[i] : uncopied[i - LENGTH(copied)];
        machine.stack.pads_rows = false;
        struct piece_cost without = layer_cost(row);
        machine.stack.pads_rows = true;
        struct piece_cost with = layer_cost(row);
        int layer = measured[row].layer;
        double rows = 4096.0 * layers[layer].topk;
        double bytes = is_copied ? 2 * 4 * rows * layers[layer].hidden : 0;
        double copies_s = traffic_s(&machine.gpu, &machine.profile, bytes, is_copied ? 2 : 0);
        ck_assert_double_eq_tol(with.forward.total_s - without.forward.total_s, copies_s, 1e-9);
        ck_assert_double_eq_tol(with.backward.total_s - without.backward.total_s, copies_s, 1e-9);
    }
}
END_TEST

/* The op in a layer of Mixtral with fp8 and 4,096 tokens on each of 8 expert ranks; NULL: none. */
static const struct op *mixtral_op(const char *layout, const char *name)
{
    struct model model = model_of("mixtral-8x7b");
    struct plan plan = plan_of(layout, &arena);
    struct layer_options options = plan_layer_options(&plan, &machine);
    struct ops list =
        local_layer(rank_share_of(&plan), &model, 4096, &options, false, &arena).forward;
    for (int i = 0; i < list.count; i++)
        if (strcmp(list.at[i].name, name) == 0)
            return &list.at[i];
    return NULL;
}

/* A capacity of 1 gives an expert 1,024 rows from each of 8 ranks, a multiple of 16. A capacity of
 * 1.01 gives it 1,035 from each, in all 8,280, which are padded to 8,288. Without a capacity the
 * host launches 12 kernels that count rows. */
START_TEST(rows_with_an_aligned_capacity_are_neither_copied_nor_counted)
{
    machine_load("dgx-h100", 8);
    machine.stack.pads_rows = true;
    ck_assert_ptr_nonnull(mixtral_op("ep8 mb1 dtype=fp8", "expert_pad"));
    ck_assert_ptr_null(mixtral_op("ep8 mb1 dtype=fp8 capacity=1", "expert_pad"));
    ck_assert_ptr_null(mixtral_op("ep8 mb1 dtype=fp8 capacity=1", "expert_unpad"));
    ck_assert_double_eq(mixtral_op("ep8 mb1 dtype=fp8 capacity=1.01", "expert_pad")->bytes,
                        2.0 * (8280 + 8288) * 4096);
    double counted = mixtral_op("ep8 mb1 dtype=fp8", "dispatch")->kernels;
    ck_assert_double_eq(mixtral_op("ep8 mb1 dtype=fp8 capacity=1", "dispatch")->kernels,
                        counted - 12);
}
END_TEST

/* Bytes of the exchanges of rows (tokens that are sent to experts) in a layer's sequence of
 * operations, in their order.
 */
static int exchanged_bytes(struct ops list, double bytes[2])
{
    int count = 0;
    for (int i = 0; i < list.count; i++)
        if (list.at[i].kind == OP_ALL_TO_ALL && strcmp(list.at[i].name, "expert_shares") != 0) {
            ck_assert_int_lt(count, 2);
            bytes[count++] = list.at[i].comm_bytes;
        }
    return count;
}

/* A token of DeepSeek-V3 sends 8 rows of 7168 values. A quantised value takes a byte, and 128
 * values share a scale; on the way back a value takes 16 bits. Gradients of rows take as much as
 * rows. */
START_TEST(rows_to_experts_travel_quantised)
{
    struct model model = model_of("deepseek-v3");
    struct model experts = model_of_kind(&model, 1);
    struct plan plan = plan_of("tp1 ep8 mb1 dtype=fp8-block", &arena);
    double values = 4096.0 * 8 * 7168, bytes[2];
    machine_load("dgx-h100", 8);
    for (int quantised = 0; quantised < 2; quantised++) {
        machine.stack.sends_quantized = quantised;
        struct layer_options options = plan_layer_options(&plan, &machine);
        struct local_ops lists =
            local_layer(rank_share_of(&plan), &experts, 4096, &options, false, &arena);
        double there_bytes = values * (quantised ? 1 + 4.0 / 128 : 2);
        struct ops both[] = { lists.forward, lists.backward };
        for (int list = 0; list < 2; list++) {
            ck_assert_int_eq(exchanged_bytes(both[list], bytes), 2);
            ck_assert_double_eq(bytes[0], there_bytes);
            ck_assert_double_eq(bytes[1], 2 * values);
        }
    }
}
END_TEST

/* DeepEP sends the router's weights (shares) and the numbers of rows together with the tokens, so
 * it needs no further messages. With ep4 a rank has two of Mixtral's eight experts, and a token
 * that chooses two experts reaches 4 (1 - C(6, 2)/C(8, 2)) = 13/7 ranks on average. So of 8,192
 * rows only 4,096 x 13/7 arrive, each with 4096 values of 2 bytes. */
START_TEST(tokens_that_are_sent_once_bring_their_shares)
{
    struct model model = model_of("mixtral-8x7b");
    struct plan plan = plan_of("tp1 ep4 mb1", &arena);
    machine_load("dgx-h100", 4);
    for (int kind = 0; kind < 2; kind++) {
        machine.stack.dispatcher = kind == 0 ? DISPATCHER_ALL_TO_ALL : DISPATCHER_DEEPEP;
        struct layer_options options = plan_layer_options(&plan, &machine);
        struct ops list =
            local_layer(rank_share_of(&plan), &model, 4096, &options, false, &arena).forward;
        int messages = 0;
        for (int i = 0; i < list.count; i++)
            messages += op_is_collective(list.at[i].kind);
        double arriving = kind == 0 ? 8192 : 4096 * 13.0 / 7;
        int arrived = op_named(list, "expert_sort")->in.at[0];
        /* Rows go and return; without DeepEP there are also exchanges of counts and of weights. */
        ck_assert_int_eq(messages, kind == 0 ? 4 : 2);
        ck_assert_double_eq_tol(list.operands->values[arrived].bytes, arriving * 4096 * 2, 1);
    }
}
END_TEST

/* expert_efficiency is the rate of experts' products relative to the rate of other products. */
START_TEST(slower_products_of_experts_slow_only_these)
{
    struct model model = model_of("mixtral-8x7b");
    struct plan plan = plan_of("tp1 dp8 ep8 mb1", &arena);
    machine_load("dgx-h100", 8);
    struct piece_cost usual = pieces_cost(&machine, &model, &plan, &arena).at[0];
    machine.stack.expert_efficiency = 0.5;
    struct piece_cost slow = pieces_cost(&machine, &model, &plan, &arena).at[0];
    /* 2 x 8192 rows x 3 matrices of 4096 x 14336 */
    double flops = 2.0 * 8192 * 3 * 4096 * 14336;
    double most_s = flops / (0.5 * machine.gpu.peak_flops_per_s[DTYPE_BF16]);
    double more_s = slow.forward.total_s - usual.forward.total_s;
    ck_assert_double_gt(more_s, 0.8 * most_s);
    ck_assert_double_lt(more_s, 1.2 * most_s);
}
END_TEST

/* overlap=ep saves at most the exposed time of the rows. With a single microbatch it saves
 * nothing. */
START_TEST(overlap_of_experts_saves_at_most_the_exposed_row_time)
{
    struct model model = model_of("mixtral-8x7b");
    machine_load("dgx-h100", 64);
    double spared_s[2];
    for (int i = 0; i < 2; i++) {
        model.batch = i == 0 ? 64 : 64 * 32;
        struct evaluator *evaluator = evaluator_new(&machine, &model);
        struct plan alone =
            plan_on(&machine, &model, "tp1 ep8 pp1 mb1 zero1 overlap=grad,param", &arena);
        struct plan beside =
            plan_on(&machine, &model, "tp1 ep8 pp1 mb1 zero1 overlap=grad,param,ep", &arena);
        struct prediction without = evaluate(evaluator, &alone),
                          with = evaluate(evaluator, &beside);
        spared_s[i] = without.step_s - with.step_s;
        ck_assert_double_le(spared_s[i], without.time.expert_comm_s * 1.001);
        if (i == 1)
            ck_assert_double_gt(spared_s[i], 0.5 * without.time.expert_comm_s);
        evaluator_free(evaluator);
    }
    ck_assert_double_eq(spared_s[0], 0);
}
END_TEST

/* With a capacity factor all experts get as many rows as their capacity, however tokens are routed.
 * Without it the fullest rank takes longer and holds more. */
START_TEST(with_a_capacity_routing_does_not_change_the_time)
{
    static const char *const layouts[] = { "dp8 ep8 mb1", "dp8 ep8 mb1 capacity=1.25" };
    machine_load("dgx-h100", 8);
    for (int i = 0; i < 2; i++) {
        struct model model = model_of("mixtral-8x7b");
        struct plan plan = plan_of(layouts[i], &arena);
        struct piece_cost even = pieces_cost(&machine, &model, &plan, &arena).at[0];
        model.routing = (struct routing){ .kind = ROUTING_FACTOR, .factor = 1.5 };
        struct piece_cost skewed = pieces_cost(&machine, &model, &plan, &arena).at[0];
        ck_assert(skewed.forward.total_s > even.forward.total_s || i == 1);
        ck_assert(skewed.saved_bytes > even.saved_bytes || i == 1);
        ck_assert(skewed.forward.total_s == even.forward.total_s || i == 0);
        ck_assert(skewed.backward.total_s == even.backward.total_s || i == 0);
        ck_assert(skewed.saved_bytes == even.saved_bytes || i == 0);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sim/cost: experts");
    TCase *tc = tcase_create("times");
    tcase_add_test(tc, with_a_capacity_routing_does_not_change_the_time);
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_test(tc, an_expert_layer_takes_the_measured_time);
    tcase_add_test(tc, with_many_choices_dispatchers_are_ordered_by_time);
    tcase_add_test(tc, a_dispatch_has_the_rate_of_its_source);
    tcase_add_test(tc, gathered_tokens_are_those_of_all_ranks);
    tcase_add_test(tc, rows_are_copied_for_alignment);
    tcase_add_test(tc, rows_with_an_aligned_capacity_are_neither_copied_nor_counted);
    tcase_add_test(tc, rows_to_experts_travel_quantised);
    tcase_add_test(tc, tokens_that_are_sent_once_bring_their_shares);
    tcase_add_test(tc, slower_products_of_experts_slow_only_these);
    tcase_add_test(tc, weight_gradients_with_two_scales_per_sum_are_slower);
    tcase_add_test(tc, overlap_of_experts_saves_at_most_the_exposed_row_time);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
