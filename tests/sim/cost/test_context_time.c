#include "sim/cost/compute.h"
#include "sim/engine/simulate.h"
#include "sim/plan/layout.h"
#include "sim/plan/local.h"
#include "sim/plan/ranks.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/cost/wires.h"
#include "tests/sim/machine.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* --- seconds ------------------------------------------------------------------------------------
 */

/* Makes a machine whose network is `factor` times as fast, and on which overlap slows nothing down.
 */
static void load_plain(int num_gpus, double factor)
{
    load("llama3-8b", num_gpus);
    model.seq = 32768;
    machine.profile.overlap_compute_slowdown = machine.profile.overlap_comm_slowdown = 1;
    machine.profile.intra_bandwidth_factor *= factor;
    machine.profile.inter_bandwidth_factor *= factor;
}

/* Returns two times without overlap: that of one attention kernel of a ring (a step), and that of
 * one message with keys and values. */
static void ring_step(const struct plan *plan, double *step_s, double *message_s)
{
    struct ops ops =
        local_layer(rank_share_of(plan), &model, model.seq, &layer_flash, true, &arena).forward;
    struct comm_group pair = axis_pair(&machine, plan, CONTEXT_RANKS);
    for (int i = 0; i < ops.count; i++) {
        const struct op *op = &ops.at[i];
        if (op->kind == OP_SEND_RECEIVE)
            *message_s = point_to_point_s(&pair, op->comm_bytes);
        if (op->kind == OP_FLASH_ATTENTION) /* the last kernel is one step */
            *step_s = op_s(&machine.gpu, &machine.profile, ATTENTION_FLASH3, op);
    }
}

static const double factors[] = { 1, 0.1, 0.03, 0.001 };

/* The time is cp - 1 times the longer of a step and a message, plus the last step. */
START_TEST(a_ring_exposes_the_excess_of_message_over_compute_per_step)
{
    load_plain(8, factors[_i]);
    struct plan plan = plan_of("cp8", &arena);
    struct pieces pieces = pieces_cost(&machine, &model, &plan, &arena);
    double step_s = 0;
    double message_s = 0;
    ring_step(&plan, &step_s, &message_s);
    /* an op that stands for several steps is launched once */
    double slack_s = 8 * machine.profile.kernel_s;
    double exposed_s = 7 * fmax(0, message_s - step_s);
    ck_assert_double_eq_tol(pieces.at[0].forward.context_s, exposed_s, slack_s);
    ck_assert_double_eq_tol(pieces.at[0].forward.comm_s, pieces.at[0].forward.context_s, 1e-12);
    ck_assert_double_eq_tol(pieces.at[0].replay.context_s, pieces.at[0].forward.context_s, 1e-12);
}
END_TEST

static const char *const methods[] = { "cp8", "cp8 cp-comm=all-gather", "cp8 cp-comm=a2a" };

START_TEST(a_time_never_increases_with_bandwidth)
{
    double before_s = HUGE_VAL;
    for (int i = 3; i >= 0; i--) {
        load_plain(8, factors[i]);
        struct plan plan = plan_of(methods[_i], &arena);
        struct pieces pieces = pieces_cost(&machine, &model, &plan, &arena);
        double layer_s = pieces.at[0].forward.total_s + pieces.at[0].backward.total_s;
        ck_assert_double_le(layer_s, before_s);
        ck_assert_double_ge(pieces.at[0].backward.context_s, 0);
        before_s = layer_s;
        tear_down();
    }
}
END_TEST

START_TEST(within_a_node_a_ring_is_hidden_and_gathering_is_exposed)
{
    load_plain(8, 1);
    struct plan ring = plan_of("cp8", &arena);
    struct plan gather = plan_of("cp8 cp-comm=all-gather", &arena);
    struct pieces of_ring = pieces_cost(&machine, &model, &ring, &arena);
    struct pieces of_gather = pieces_cost(&machine, &model, &gather, &arena);
    ck_assert_double_lt(of_ring.at[0].forward.context_s, 1e-5);
    struct comm_group group = network_plan_group(&machine, &gather, CONTEXT_RANKS);
    ck_assert_double_eq_tol(of_gather.at[0].forward.context_s,
                            collective_s(&group, COLLECTIVE_ALL_GATHER, 2.0 * 32768 * 2 * 8 * 128),
                            1e-12);
}
END_TEST

/* With a split backward, the half that computes input gradients contains the ring. */
START_TEST(a_split_backward_keeps_its_ring)
{
    load_plain(16, 1);
    struct plan whole = plan_of("cp2 pp8", &arena);
    struct plan split = plan_of("cp2 pp8 schedule=zb-h1", &arena);
    struct pieces of_whole = pieces_cost(&machine, &model, &whole, &arena);
    struct pieces of_split = pieces_cost(&machine, &model, &split, &arena);
    ck_assert_double_gt(of_split.at[0].weight.compute_s, 0);
    ck_assert_double_eq_tol(of_split.at[0].backward.context_s, of_whole.at[0].backward.context_s,
                            1e-9);
}
END_TEST

/* --- a step -------------------------------------------------------------------------------------
 */

static struct prediction predict(const char *layout, struct evaluator **evaluator)
{
    struct plan plan = plan_of(layout, &arena);
    ck_assert_msg(plan_derive_data(&plan, machine.num_gpus, &err), "%s", err.msg);
    ck_assert_msg(!plan_check(&plan, &model, model.batch, machine.num_gpus, &err), "%s", err.msg);
    ck_assert_msg(system_check(&machine, &plan, &err), "%s", err.msg);
    *evaluator = evaluator_new(&machine, &model);
    return evaluate(*evaluator, &plan);
}

/* The GPUs are the same in both plans. With context ranks, a rank has slices of more sequences;
 * without them, it has fewer whole sequences. */
START_TEST(context_ranks_share_state_like_data_ranks_and_divide_activations)
{
    load("llama3-8b", 64);
    model.batch = 64;
    struct evaluator *evaluators[2];
    struct prediction data = predict("zero1 overlap=none", &evaluators[0]);
    struct prediction context = predict("cp8 zero1 overlap=none", &evaluators[1]);
    const struct stage_memory *of_data = &data.stages[0];
    const struct stage_memory *of_context = &context.stages[0];
    ck_assert_double_eq(of_context->weights_bytes, of_data->weights_bytes);
    ck_assert_double_eq(of_context->optimizer_bytes, of_data->optimizer_bytes);
    ck_assert_double_eq_tol(8 * of_context->activations_bytes, of_data->activations_bytes, 1);
    ck_assert_double_eq_tol(8 * of_context->logits_bytes, of_data->logits_bytes, 1);
    ck_assert_double_eq_tol(context.hfu * context.step_s, data.hfu * data.step_s, 1e-9);
    ck_assert_double_eq_tol(context.mfu * context.step_s, data.mfu * data.step_s, 1e-9);
    ck_assert_double_eq(context.time.optimizer_s, data.time.optimizer_s);
    ck_assert_double_eq(context.time.data_comm_s, data.time.data_comm_s);
    ck_assert_double_eq(data.time.context_comm_s, 0);
    ck_assert_double_gt(context.time.context_comm_s, 0);
    evaluator_free(evaluators[0]);
    evaluator_free(evaluators[1]);
}
END_TEST

START_TEST(with_context_ranks_a_message_between_stages_is_a_slice)
{
    load("llama3-8b", 64);
    model.batch = 64;
    struct evaluator *evaluators[2];
    struct prediction one = predict("tp8 pp2 overlap=none", &evaluators[0]);
    struct prediction two = predict("tp8 cp2 pp2 overlap=none", &evaluators[1]);
    struct plan plan = plan_of("tp8 cp2 pp2 dp2", &arena);
    struct comm_group pair = axis_pair(&machine, &plan, PIPELINE_RANKS);
    double sequence_bytes = 2.0 * 8192 * 4096;
    double saved_s =
        point_to_point_s(&pair, sequence_bytes) - point_to_point_s(&pair, sequence_bytes / 2);
    double one_s = one.time.pipeline_comm_s / one.num_microbatches;
    double two_s = two.time.pipeline_comm_s / two.num_microbatches;
    ck_assert_double_eq_tol(one_s - two_s, saved_s, 1e-3 * one_s);
    evaluator_free(evaluators[0]);
    evaluator_free(evaluators[1]);
}
END_TEST

START_TEST(a_stack_without_flash_attention_has_no_context_ranks)
{
    ck_assert(system_load("dgx-a100-80g", "megatron-2021", 8, &machine, &err));
    struct plan one = plan_of("tp2 cp1", &arena);
    struct plan two = plan_of("tp2 cp2", &arena);
    ck_assert(system_check(&machine, &one, &err));
    ck_assert(!system_check(&machine, &two, &err));
    ck_assert_str_eq(err.where, "cp");
    ck_assert_ptr_nonnull(strstr(err.msg, "cp 2 needs flash attention, which megatron-2021"));
    err = (struct err){ 0 };
}
END_TEST

/* Neighbouring ranks are tp ranks apart in a context ring, tp x cp in a data group, and tp x cp x
 * dp between stages. */
START_TEST(context_ranks_are_placed_between_tensor_and_data_ranks)
{
    struct plan plan = plan_of("tp4 cp2 dp8 pp2", &arena);
    ck_assert_int_eq(layout_stride(&plan, AXIS_TENSOR), 1);
    ck_assert_int_eq(layout_stride(&plan, AXIS_CONTEXT), 4);
    ck_assert_int_eq(layout_stride(&plan, AXIS_DATA), 8);
    ck_assert_int_eq(layout_stride(&plan, AXIS_PIPELINE), 64);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("seconds");
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_loop_test(tc, a_ring_exposes_the_excess_of_message_over_compute_per_step, 0, 4);
    tcase_add_loop_test(tc, a_time_never_increases_with_bandwidth, 0, NUM_CONTEXT_COMMS);
    tcase_add_test(tc, within_a_node_a_ring_is_hidden_and_gathering_is_exposed);
    tcase_add_test(tc, a_split_backward_keeps_its_ring);
    tcase_add_test(tc, context_ranks_share_state_like_data_ranks_and_divide_activations);
    tcase_add_test(tc, with_context_ranks_a_message_between_stages_is_a_slice);
    tcase_add_test(tc, a_stack_without_flash_attention_has_no_context_ranks);
    tcase_add_test(tc, context_ranks_are_placed_between_tensor_and_data_ranks);
    Suite *s = suite_create("sim/plan/context: time");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
