#include "tests/testing.h"

#include "sim/cost/compute.h"
#include "sim/cost/network.h"
#include "sim/engine/simulate.h"
#include "sim/plan/context.h"
#include "sim/plan/layout.h"
#include "sim/plan/local.h"
#include "tests/named.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct arena arena;
static struct system machine;
static struct model model;
static struct err err;
static const struct layer_options options = { .flash_attention = true,
                                              .dtype = DTYPE_BF16,
                                              .gradient_bytes = 4 };

static void tear_down(void)
{
    system_release(&machine);
    machine = (struct system){ 0 };
    arena_release(&arena);
}

static void load(const char *name, int num_gpus)
{
    bool ok = system_load("dgx-h100", "megatron-core", num_gpus, &machine, &err) &&
              model_load(name, &model, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
}

static struct local_ops layer_of(const char *layout)
{
    struct plan plan = plan_of(layout, &arena);
    return local_layer(&plan, &model, model.seq, &options, true, &arena);
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

/* LLaMA-3 8B, 8192 tokens over 4 ranks in bf16: 2048 rows of 2 x 8 heads of keys and values, and of
 * 32 heads of queries or outputs, 128 each. */
static const double key_bytes = 2.0 * 2048 * 2 * 8 * 128;
static const double query_bytes = 2.0 * 2048 * 32 * 128;

/* Exchanges of one kind in a list: how many and of how many bytes in all. */
static const struct {
    const char *method;
    enum op_kind kind;
    bool is_backward;
    double messages;
    double keys, queries; /* bytes, in those */
} volumes[] = {
    { "p2p", OP_SEND_RECEIVE, false, 3, 3, 0 },
    { "p2p", OP_SEND_RECEIVE, true, 4, 6, 0 }, /* 3 of keys, 3 of gradients; 2 go together */
    { "p2p", OP_ALL_GATHER, true, 0, 0, 0 },
    { "all-gather", OP_ALL_GATHER, false, 1, 4, 0 },
    { "all-gather", OP_REDUCE_SCATTER, false, 0, 0, 0 },
    { "all-gather", OP_ALL_GATHER, true, 1, 4, 0 },
    { "all-gather", OP_REDUCE_SCATTER, true, 1, 4, 0 },
    { "a2a", OP_ALL_TO_ALL, false, 4, 1, 2 },
    { "a2a", OP_ALL_TO_ALL, true, 4, 1, 2 },
};
enum { NUM_VOLUMES = sizeof volumes / sizeof *volumes };

START_TEST(a_method_moves_the_bytes_of_its_paper)
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

START_TEST(ranks_of_two_send_keys_and_then_gradients)
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

START_TEST(tensor_ranks_divide_what_context_ranks_exchange)
{
    load("llama3-8b", 8);
    struct ops ops = layer_of("tp4 cp4 sp").forward;
    for (int i = 0; i < ops.count; i++)
        if (ops.at[i].kind == OP_SEND_RECEIVE)
            ck_assert_double_eq(ops.at[i].comm_bytes, key_bytes / 4);
}
END_TEST

START_TEST(other_ranks_keys_are_held_as_the_method_needs_them)
{
    load("llama3-8b", 8);
    static const char *const layouts[] = { "cp1", "cp4", "cp4 cp-comm=all-gather",
                                           "cp4 cp-comm=a2a" };
    const double expected[] = { 0, 2 * key_bytes, 4 * key_bytes, query_bytes + key_bytes };
    for (int i = 0; i < 4; i++) {
        struct plan plan = plan_of(layouts[i], &arena);
        struct layer_dims dims = local_dims(&plan, &model, model.seq);
        ck_assert_double_eq(context_buffer_bytes(&plan, &dims, 2), expected[i]);
    }
}
END_TEST

START_TEST(a_rank_has_its_share_of_tokens_and_all_keys_and_weights)
{
    load("llama3-8b", 8);
    struct plan plan = plan_of("tp2 cp4 sp mb3", &arena);
    struct layer_dims dims = local_dims(&plan, &model, 8192);
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

/* Every preset whose sequences and heads can be split so; with tensor ranks and without. */
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
                    if (plan_check(&plan, &model, 1, tp * cp, &why))
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
    return local_layer(&other, &model, model.seq, &options, true, &arena);
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

START_TEST(ranks_together_do_the_flops_of_one)
{
    for_each_split(check_flops);
}
END_TEST

static double saved_of(const struct op *op)
{
    return op->saved_bytes + op->saved_input_bytes;
}

static void check_saved(const struct plan *plan)
{
    check_same(layer_for(plan, plan->cp).forward, layer_for(plan, 1).forward, plan->cp, saved_of);
}

START_TEST(ranks_together_keep_the_activations_of_one)
{
    for_each_split(check_saved);
}
END_TEST

static void check_list(struct ops ops)
{
    for (int i = 0; i < ops.count; i++) {
        const struct op *op = &ops.at[i];
        ck_assert(op->kind != OP_CONTEXT_ENTER && op->kind != OP_CONTEXT_LEAVE);
        ck_assert(op->after >= -1 && op->after < i);
        if (op->stream == STREAM_CONTEXT) {
            ck_assert(op_is_collective(op->kind) && op->comm_bytes > 0 && op->batch >= 1);
            ck_assert_double_eq(op->flops + op->bytes + op->saved_bytes, 0);
        }
    }
}

static void check_order(const struct plan *plan)
{
    struct local_ops ops = layer_for(plan, plan->cp);
    check_list(ops.forward);
    check_list(ops.backward);
}

START_TEST(no_mark_is_left_and_each_op_waits_for_an_earlier_one)
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

START_TEST(every_method_is_named_as_its_word)
{
    for (int i = 0; i < NUM_CONTEXT_COMMS; i++) {
        ck_assert_str_eq(context_methods[i].name, context_comm_words[i]);
        ck_assert(context_methods[i].source[0]);
        ck_assert(context_methods[i].summary[0]);
    }
}
END_TEST

/* --- seconds ------------------------------------------------------------------------------------
 */

/* A machine on which nothing slows anything down, and whose network is `factor` as fast. */
static void load_plain(int num_gpus, double factor)
{
    load("llama3-8b", num_gpus);
    model.seq = 32768;
    machine.profile.overlap_compute_slowdown = machine.profile.overlap_comm_slowdown = 1;
    machine.profile.intra_bandwidth_factor *= factor;
    machine.profile.inter_bandwidth_factor *= factor;
}

/* Alone: one step of a ring's kernel, and one message of keys. */
static void ring_step(const struct plan *plan, double *step_s, double *message_s)
{
    struct ops ops = local_layer(plan, &model, model.seq, &options, true, &arena).forward;
    struct comm_group pair = network_axis_pair(&machine, plan, AXIS_CONTEXT);
    for (int i = 0; i < ops.count; i++) {
        const struct op *op = &ops.at[i];
        if (op->kind == OP_SEND_RECEIVE)
            *message_s = point_to_point_s(&pair, op->comm_bytes);
        if (op->kind == OP_FLASH_ATTENTION) /* the last of them is one step */
            *step_s = op_s(&machine.gpu, &machine.profile, ATTENTION_FLASH3, op);
    }
}

static const double factors[] = { 1, 0.1, 0.03, 0.001 };

/* Steps hide messages, or messages steps: cp - 1 of either, and the last step. */
START_TEST(a_ring_exposes_what_each_message_takes_longer_than_a_step)
{
    load_plain(8, factors[_i]);
    struct plan plan = plan_of("cp8", &arena);
    struct pieces pieces = pieces_cost(&machine, &model, &plan, &arena);
    double step_s = 0;
    double message_s = 0;
    ring_step(&plan, &step_s, &message_s);
    /* Steps in one op start once. */
    double slack_s = 8 * machine.profile.kernel_s;
    double exposed_s = 7 * fmax(0, message_s - step_s);
    ck_assert_double_eq_tol(pieces.layer.forward.context_s, exposed_s, slack_s);
    ck_assert_double_eq_tol(pieces.layer.forward.comm_s, pieces.layer.forward.context_s, 1e-12);
    ck_assert_double_eq_tol(pieces.layer.core.context_s, pieces.layer.forward.context_s, 1e-12);
}
END_TEST

static const char *const methods[] = { "cp8", "cp8 cp-comm=all-gather", "cp8 cp-comm=a2a" };

START_TEST(more_bandwidth_is_never_slower)
{
    double before_s = HUGE_VAL;
    for (int i = 3; i >= 0; i--) {
        load_plain(8, factors[i]);
        struct plan plan = plan_of(methods[_i], &arena);
        struct pieces pieces = pieces_cost(&machine, &model, &plan, &arena);
        double layer_s = pieces.layer.forward.total_s + pieces.layer.backward.total_s;
        ck_assert_double_le(layer_s, before_s);
        ck_assert_double_ge(pieces.layer.backward.context_s, 0);
        before_s = layer_s;
        tear_down();
    }
}
END_TEST

START_TEST(a_ring_in_a_node_is_hidden_where_gathering_is_not)
{
    load_plain(8, 1);
    struct plan ring = plan_of("cp8", &arena);
    struct plan gather = plan_of("cp8 cp-comm=all-gather", &arena);
    struct pieces of_ring = pieces_cost(&machine, &model, &ring, &arena);
    struct pieces of_gather = pieces_cost(&machine, &model, &gather, &arena);
    ck_assert_double_lt(of_ring.layer.forward.context_s, 1e-5);
    struct comm_group group = network_axis_group(&machine, &gather, AXIS_CONTEXT);
    ck_assert_double_eq_tol(of_gather.layer.forward.context_s,
                            collective_s(&group, COLLECTIVE_ALL_GATHER, 2.0 * 32768 * 2 * 8 * 128),
                            1e-12);
}
END_TEST

/* Split backwards run their half of the list with the ring in it. */
START_TEST(a_split_backward_keeps_its_ring)
{
    load_plain(16, 1);
    struct plan whole = plan_of("cp2 pp8", &arena);
    struct plan split = plan_of("cp2 pp8 schedule=zb-h1", &arena);
    struct pieces of_whole = pieces_cost(&machine, &model, &whole, &arena);
    struct pieces of_split = pieces_cost(&machine, &model, &split, &arena);
    ck_assert_double_gt(of_split.layer.weight.compute_s, 0);
    ck_assert_double_eq_tol(of_split.layer.backward.context_s, of_whole.layer.backward.context_s,
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

/* The same GPUs, each with a slice of more sequences in place of whole ones. */
START_TEST(state_and_work_are_those_of_data_ranks_and_activations_fall)
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

START_TEST(a_message_between_stages_is_a_slice)
{
    load("llama3-8b", 64);
    model.batch = 64;
    struct evaluator *evaluators[2];
    struct prediction one = predict("tp8 pp2 overlap=none", &evaluators[0]);
    struct prediction two = predict("tp8 cp2 pp2 overlap=none", &evaluators[1]);
    struct plan plan = plan_of("tp8 cp2 pp2 dp2", &arena);
    struct comm_group pair = network_stage_pair(&machine, &plan);
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

/* Neighbours in a ring are tp ranks apart, data ranks tp x cp, stages all that and dp. */
START_TEST(context_ranks_lie_between_tensor_and_data_ranks)
{
    struct plan plan = plan_of("tp4 cp2 dp8 pp2", &arena);
    ck_assert_int_eq(layout_stride(&plan, AXIS_TENSOR), 1);
    ck_assert_int_eq(layout_stride(&plan, AXIS_CONTEXT), 4);
    ck_assert_int_eq(layout_stride(&plan, AXIS_DATA), 8);
    ck_assert_int_eq(layout_stride(&plan, AXIS_PIPELINE), 64);
}
END_TEST

static TCase *by_hand(void)
{
    TCase *tc = tcase_create("volumes");
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_loop_test(tc, a_method_moves_the_bytes_of_its_paper, 0, NUM_VOLUMES);
    tcase_add_test(tc, ranks_of_two_send_keys_and_then_gradients);
    tcase_add_test(tc, tensor_ranks_divide_what_context_ranks_exchange);
    tcase_add_test(tc, other_ranks_keys_are_held_as_the_method_needs_them);
    tcase_add_test(tc, a_rank_has_its_share_of_tokens_and_all_keys_and_weights);
    return tc;
}

static TCase *laws(void)
{
    TCase *tc = tcase_create("laws");
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_test(tc, ranks_together_do_the_flops_of_one);
    tcase_add_test(tc, ranks_together_keep_the_activations_of_one);
    tcase_add_test(tc, no_mark_is_left_and_each_op_waits_for_an_earlier_one);
    tcase_add_test(tc, one_rank_exchanges_nothing);
    tcase_add_test(tc, a_ring_of_any_size_is_a_few_ops);
    tcase_add_test(tc, every_method_is_named_as_its_word);
    return tc;
}

static TCase *steps(void)
{
    TCase *tc = tcase_create("seconds");
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_loop_test(tc, a_ring_exposes_what_each_message_takes_longer_than_a_step, 0, 4);
    tcase_add_loop_test(tc, more_bandwidth_is_never_slower, 0, NUM_CONTEXT_COMMS);
    tcase_add_test(tc, a_ring_in_a_node_is_hidden_where_gathering_is_not);
    tcase_add_test(tc, a_split_backward_keeps_its_ring);
    tcase_add_test(tc, state_and_work_are_those_of_data_ranks_and_activations_fall);
    tcase_add_test(tc, a_message_between_stages_is_a_slice);
    tcase_add_test(tc, a_stack_without_flash_attention_has_no_context_ranks);
    tcase_add_test(tc, context_ranks_lie_between_tensor_and_data_ranks);
    return tc;
}

static Suite *suite(void)
{
    Suite *s = suite_create("sim/plan/context");
    suite_add_tcase(s, by_hand());
    suite_add_tcase(s, laws());
    suite_add_tcase(s, steps());
    return s;
}

TEST_MAIN(suite)
