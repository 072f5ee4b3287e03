/* Tests the zero-bubble schedules from the plan's text to the prediction. test_schedule tests their
 * orders, test_pipeline their times. */
#include "sim/engine/simulate.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>

static struct system hardware;
static struct model model;
static struct arena arena;
static struct evaluator *evaluator;

static void load_on(const char *cluster, const char *name, double batch, int num_gpus)
{
    struct err err = { 0 };
    ck_assert_msg(model_load(name, &model, &err), "%s", err.msg);
    ck_assert_msg(system_load(cluster, "megatron-core", num_gpus, &hardware, &err), "%s", err.msg);
    model.batch = batch;
    evaluator = evaluator_new(&hardware, &model);
}

static void load(const char *name, double batch, int num_gpus)
{
    load_on("dgx-a100-80g", name, batch, num_gpus);
}

static void release(void)
{
    evaluator_free(evaluator);
    system_release(&hardware);
    arena_release(&arena);
    evaluator = NULL;
}

static struct prediction predict(const char *layout)
{
    struct plan plan = plan_on(&hardware, &model, layout, &arena);
    return evaluate(evaluator, &plan);
}

static struct pieces pieces_of(const char *layout)
{
    struct plan plan = plan_on(&hardware, &model, layout, &arena);
    return pieces_cost(&hardware, &model, &plan, &arena);
}

static void check_halves(const struct piece_cost *whole, const struct piece_cost *split)
{
    double compute_s = split->backward.compute_s + split->weight.compute_s;
    double kernels = split->backward.kernels + split->weight.kernels;
    double flops = split->backward.flops + split->weight.flops;
    ck_assert_double_eq_tol(compute_s, whole->backward.compute_s, 1e-12 * compute_s);
    ck_assert_double_eq(kernels, whole->backward.kernels);
    ck_assert_double_le(fabs(flops - whole->backward.flops), 1e-12 * flops);
    ck_assert_double_eq(split->forward.total_s, whole->forward.total_s);
    ck_assert_double_eq(whole->weight.total_s, 0);
}

static const struct {
    const char *whole, *split;
} pairs[] = {
    { "pp8 mb1", "pp8 mb1 schedule=zb-h1" },
    { "tp4 pp4 mb1 sp", "tp4 pp4 mb1 sp schedule=zb-h1" },
    { "tp2 cp2 pp4 mb1", "tp2 cp2 pp4 mb1 schedule=zb-h2" },
};
enum { NUM_PAIRS = LENGTH(pairs) };

START_TEST(the_two_halves_of_a_backward_sum_to_the_whole)
{
    load("gpt3-6.7b", 64, 16);
    struct pieces whole = pieces_of(pairs[_i].whole);
    struct pieces split = pieces_of(pairs[_i].split);
    check_halves(&whole.at[0], &split.at[0]);
    check_halves(&whole.at[PIECE_EMBEDDING], &split.at[PIECE_EMBEDDING]);
    check_halves(&whole.at[PIECE_HEAD], &split.at[PIECE_HEAD]);
}
END_TEST

/* With a split backward, weight gradients no longer overlap the collectives of the input gradients.
 */
START_TEST(collectives_that_overlapped_weight_gradients_become_exposed)
{
    load("gpt3-6.7b", 64, 16);
    hardware.stack.user_buffers = false; /* with user buffers, input gradients would overlap
                                          * collectives too */
    struct list_cost whole = pieces_of("tp4 pp4 mb1 sp overlap=tp").at[0].backward;
    struct piece_cost split = pieces_of("tp4 pp4 mb1 sp overlap=tp schedule=zb-h1").at[0];
    struct list_cost apart = pieces_of("tp4 pp4 mb1 sp overlap=none").at[0].backward;
    double split_s = split.backward.total_s + split.weight.total_s;
    ck_assert_double_gt(split_s, whole.total_s);
    ck_assert_double_eq_tol(split_s, apart.total_s, 1e-12 * split_s);
}
END_TEST

/* Transfers between context ranks still overlap attention in the same half of the backward. */
START_TEST(context_transfers_still_overlap_attention)
{
    load("gpt3-6.7b", 64, 16);
    struct list_cost whole = pieces_of("cp4 pp4 mb1").at[0].backward;
    struct piece_cost split = pieces_of("cp4 pp4 mb1 schedule=zb-h1").at[0];
    ck_assert_double_gt(whole.context_s, 0);
    ck_assert_double_eq_tol(split.backward.context_s, whole.context_s, 1e-12);
    ck_assert_double_eq_tol(split.backward.total_s + split.weight.total_s, whole.total_s, 1e-12);
}
END_TEST

/* Linear layers do most of the work, and take equally long in the forward, the input gradients and
 * the weight gradients. The pass of input gradients also contains attention, norms and
 * collectives. */
START_TEST(the_three_passes_of_a_layer_have_similar_lengths)
{
    load("gpt3-6.7b", 64, 16);
    struct piece_cost layer = pieces_of("pp8 mb1 schedule=zb-h1").at[0];
    ck_assert_double_lt(layer.weight.total_s, layer.forward.total_s);
    ck_assert_double_lt(layer.forward.total_s, layer.backward.total_s);
    ck_assert_double_gt(layer.weight.total_s, 0.6 * layer.backward.total_s);
}
END_TEST

/* The operands of the weight gradients of a GPT layer on one rank, in bytes per element of the
 * hidden state [s b h], in 16 bits: inputs 2 + 2 + 2 + 8, output gradients 6 + 2 + 8 + 2. */
START_TEST(waiting_weight_gradients_hold_32_bytes_per_token_and_hidden_unit)
{
    load("gpt3-6.7b", 64, 16);
    struct piece_cost layer = pieces_of("pp8 mb2 schedule=zb-h1").at[0];
    double sbh = (double)model.seq * 2 * model.hidden;
    ck_assert_double_eq_tol(layer.waiting_bytes, 32 * sbh, 1e-9 * sbh);
}
END_TEST

/* The same operands of weight gradients that read quantised values: 7 inputs and 9 output gradients
 * per element of the hidden state, of 1 byte, or in an MX format of 1 + 1/32 bytes. Software that
 * quantises to MX again in the backward keeps the projection's input only as attention's output, in
 * 16 bits. */
START_TEST(quantised_weight_gradients_hold_quantised_operands)
{
    static const struct {
        const char *layout;
        double bytes;
    } rows[] = { { "pp8 mb2 schedule=zb-h1 dtype=fp8", 16 },
                 { "pp8 mb2 schedule=zb-h1 dtype=fp8-mx", 15 * (1 + 1.0 / 32) + 2 } };
    load_on("dgx-b200", "gpt3-6.7b", 64, 16);
    for (int i = 0; i < LENGTH(rows); i++) {
        struct piece_cost layer = pieces_of(rows[i].layout).at[0];
        double sbh = (double)model.seq * 2 * model.hidden;
        ck_assert_double_eq_tol(layer.waiting_bytes, rows[i].bytes * sbh, 1e-9 * sbh);
    }
}
END_TEST

static const char *const layouts[] = {
    "pp8 mb1 schedule=zb-h1",
    "pp8 mb1 schedule=zb-h2",
    "tp2 pp4 mb2 sp zero1 schedule=zb-h1",
    "tp2 pp4 mb1 zero1 recompute=selective schedule=zb-h2",
    "tp4 pp2 mb4 sp recompute=selective schedule=zb-h1",
    "tp1 pp4 mb1 stages=9,8,8,7 schedule=zb-h2",
    "cp2 pp4 mb1 zero1 schedule=zb-h1",
    "pp4 vpp2 mb1 schedule=zb-v",
    "tp2 pp4 vpp2 mb2 sp zero1 recompute=selective schedule=zb-v",
    "pp4 vpp2 mb1 stages=3,5,4,4,4,4,5,3 schedule=zb-v",
    "pp4 vpp2 mb1 schedule=dualpipev",
    "tp2 pp4 vpp2 mb1 sp zero1 recompute=selective schedule=dualpipev",
    "pp4 vpp2 mb1 stages=3,5,4,4,4,4,5,3 schedule=dualpipev",
    "pp8 mb1 zero1 schedule=dualpipe",
    "tp2 pp8 mb1 sp stages=3,5,4,4,4,4,5,3 schedule=dualpipe",
};
enum { NUM_LAYOUTS = LENGTH(layouts) };

START_TEST(the_parts_of_a_step_add_up)
{
    load("gpt3-6.7b", 64, 16);
    struct prediction p = predict(layouts[_i]);
    double sum_s = 0;
    for (int i = 0; i < num_time_parts; i++)
        sum_s += time_part_s(&p.time, i);
    ck_assert_double_eq_tol(sum_s, p.step_s, 1e-9 * p.step_s);
    ck_assert_double_ge(p.time.bubble_s, -1e-12 * p.step_s);
}
END_TEST

START_TEST(the_peak_memory_is_that_of_the_fullest_stage)
{
    load("gpt3-6.7b", 64, 16);
    struct plan plan = plan_on(&hardware, &model, layouts[_i], &arena);
    struct prediction p = evaluate(evaluator, &plan);
    double most_bytes = 0;
    for (int stage = 0; stage < p.num_stages; stage++)
        most_bytes = fmax(most_bytes, p.stages[stage].total_bytes);
    ck_assert_double_eq(p.peak_memory_bytes, most_bytes);
    ck_assert_double_eq(evaluate_peak_bytes(evaluator, &plan), most_bytes);
}
END_TEST

/* The work is the same, so model and hardware FLOPs do not change. */
START_TEST(splitting_the_backward_changes_no_flops)
{
    load("gpt3-6.7b", 64, 16);
    struct prediction plain = predict("pp8 mb1");
    struct prediction split = predict("pp8 mb1 schedule=zb-h1");
    ck_assert_double_eq_tol(split.mfu * split.step_s, plain.mfu * plain.step_s, 1e-9);
    ck_assert_double_eq_tol(split.hfu * split.step_s, plain.hfu * plain.step_s, 1e-9);
}
END_TEST

START_TEST(zb_h1_has_less_than_half_the_bubble_of_1f1b)
{
    load("gpt3-6.7b", 64, 16);
    double plain_s = predict("pp8 mb1").time.bubble_s;
    ck_assert_double_lt(predict("pp8 mb1 schedule=zb-h1").time.bubble_s, plain_s / 2);
}
END_TEST

/* The first stage holds whole microbatches; the others hold a little less, except the last, whose
 * waiting gradients are as large as logits. ZB-H2 holds 2p - 1 microbatches instead of p. */
START_TEST(on_every_stage_zb_h1_holds_the_activations_of_1f1bs_first_stage)
{
    load("gpt3-6.7b", 64, 16);
    double plain_bytes = predict("pp8 mb1").stages[0].activations_bytes;
    struct prediction one = predict("pp8 mb1 schedule=zb-h1");
    ck_assert_double_eq_tol(one.stages[0].activations_bytes, plain_bytes, 1e-9 * plain_bytes);
    for (int stage = 1; stage < 7; stage++) {
        ck_assert_double_le(one.stages[stage].activations_bytes, plain_bytes);
        ck_assert_double_ge(one.stages[stage].activations_bytes, 0.9 * plain_bytes);
    }
    ck_assert_double_gt(one.stages[7].activations_bytes, plain_bytes);
    struct prediction two = predict("pp8 mb1 schedule=zb-h2");
    ck_assert_double_eq_tol(two.stages[0].activations_bytes, 15.0 / 8 * plain_bytes,
                            1e-9 * plain_bytes);
}
END_TEST

/* Every stage holds the activations of pp microbatches of its layers; stage 0 also holds those of
 * embedding and head. */
START_TEST(on_every_stage_zb_v_holds_the_activations_of_1f1bs_first_stage)
{
    load("gpt3-6.7b", 64, 16);
    struct prediction p = predict("pp8 mb1");
    double each_bytes = p.stages[1].activations_bytes / 7; /* bytes of one microbatch in flight */
    double weights_bytes = p.stages[0].weights_bytes, bubble_s = p.time.bubble_s;
    p = predict("pp8 vpp2 mb1 schedule=zb-v");
    for (int stage = 1; stage < 8; stage++)
        ck_assert_double_eq_tol(p.stages[stage].activations_bytes, 8 * each_bytes,
                                0.02 * each_bytes);
    ck_assert_double_lt(p.time.bubble_s, bubble_s / 4);
    ck_assert_double_gt(p.stages[0].weights_bytes, weights_bytes);
}
END_TEST

/* DualPipe keeps two copies of every stage: twice the weights, but not more optimizer state,
 * because both copies share the shards. It holds activations of pp + 1 microbatches, while the
 * first stage of 1F1B holds pp. */
START_TEST(dualpipe_holds_two_stages_weights_and_one_more_microbatch)
{
    load("gpt3-6.7b", 64, 16);
    model.tied = false; /* with a single stage, embedding and head would share a matrix */
    struct prediction p = predict("pp8 mb1 zero1");
    double middle_bytes = p.stages[3].weights_bytes, ends_bytes = p.stages[0].weights_bytes;
    double last_bytes = p.stages[7].weights_bytes, state_bytes = p.stages[3].optimizer_bytes;
    double each_bytes = p.stages[1].activations_bytes / 7;
    p = predict("pp8 mb1 zero1 schedule=dualpipe");
    ck_assert_int_eq(p.num_stages, 8);
    ck_assert_double_eq(p.stages[3].weights_bytes, 2 * middle_bytes);
    ck_assert_double_eq(p.stages[0].weights_bytes, ends_bytes + last_bytes);
    ck_assert_double_eq_tol(p.stages[3].optimizer_bytes, state_bytes, 1);
    for (int stage = 1; stage < 7; stage++)
        ck_assert_double_eq_tol(p.stages[stage].activations_bytes, 9 * each_bytes,
                                0.02 * each_bytes);
    for (int stage = 0; stage < 4; stage++)
        ck_assert_double_eq(p.stages[7 - stage].total_bytes, p.stages[stage].total_bytes);
}
END_TEST

/* With the same number of stages, DualPipeV holds as many microbatches as DualPipe, but its chunks
 * are half as long, and it holds one copy of the weights. */
START_TEST(dualpipev_holds_one_copy_of_the_weights)
{
    load("gpt3-6.7b", 64, 16);
    struct prediction p = predict("pp8 mb1 zero1");
    double weights_bytes = p.stages[3].weights_bytes;
    double each_bytes = p.stages[1].activations_bytes / 7;
    p = predict("pp8 vpp2 mb1 zero1 schedule=dualpipev");
    ck_assert_double_eq(p.stages[3].weights_bytes, weights_bytes);
    for (int stage = 1; stage < 8; stage++)
        ck_assert_double_eq_tol(p.stages[stage].activations_bytes, 8.5 * each_bytes,
                                0.02 * each_bytes);
}
END_TEST

/* The plan of DeepSeek-V3's report: 16 stages, experts over 64 ranks of 8 nodes, no tensor
 * parallelism. With NCCL's all-to-all, sending the rows of experts takes longer than the compute
 * that overlaps it. */
START_TEST(the_published_plan_of_deepseek_v3_is_accepted)
{
    static const char layout[] = "pp16 dp128 ep64 mb1 zero1 schedule=dualpipe "
                                 "stages=4,4,4,4,4,4,4,4,4,4,4,4,4,3,3,3 dtype=fp8-block "
                                 "recompute=selective:mla_up_proj+layernorm";
    char hidden[sizeof layout + sizeof " overlap=ep"];
    struct err err = { 0 };
    ck_assert(model_load("deepseek-v3", &model, &err));
    ck_assert(system_load("h800-8", "megatron-core", 2048, &hardware, &err));
    model.batch = 15360;
    evaluator = evaluator_new(&hardware, &model);
    struct prediction shown = predict(layout);
    ck_assert_int_eq(shown.num_stages, 16);
    ck_assert_int_eq(shown.num_microbatches, 120);
    snprintf(hidden, sizeof hidden, "%s overlap=ep", layout);
    struct prediction beside = predict(hidden);
    ck_assert_double_lt(beside.time.expert_comm_s, 0.8 * shown.time.expert_comm_s);
    ck_assert_double_gt(beside.time.expert_comm_s, 0);
    ck_assert_double_lt(beside.step_s, shown.step_s);
    ck_assert_double_ge(beside.time.bubble_s, 0);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("zero bubble");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_loop_test(tc, the_two_halves_of_a_backward_sum_to_the_whole, 0, NUM_PAIRS);
    tcase_add_test(tc, context_transfers_still_overlap_attention);
    tcase_add_test(tc, collectives_that_overlapped_weight_gradients_become_exposed);
    tcase_add_test(tc, the_three_passes_of_a_layer_have_similar_lengths);
    tcase_add_test(tc, waiting_weight_gradients_hold_32_bytes_per_token_and_hidden_unit);
    tcase_add_test(tc, quantised_weight_gradients_hold_quantised_operands);
    tcase_add_loop_test(tc, the_parts_of_a_step_add_up, 0, NUM_LAYOUTS);
    tcase_add_loop_test(tc, the_peak_memory_is_that_of_the_fullest_stage, 0, NUM_LAYOUTS);
    tcase_add_test(tc, splitting_the_backward_changes_no_flops);
    tcase_add_test(tc, zb_h1_has_less_than_half_the_bubble_of_1f1b);
    tcase_add_test(tc, on_every_stage_zb_h1_holds_the_activations_of_1f1bs_first_stage);
    tcase_add_test(tc, on_every_stage_zb_v_holds_the_activations_of_1f1bs_first_stage);
    tcase_add_test(tc, dualpipe_holds_two_stages_weights_and_one_more_microbatch);
    tcase_add_test(tc, dualpipev_holds_one_copy_of_the_weights);
    tcase_add_test(tc, the_published_plan_of_deepseek_v3_is_accepted);
    Suite *s = suite_create("zero-bubble schedules");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
