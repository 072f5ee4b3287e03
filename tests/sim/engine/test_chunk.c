/* The transfers of a chunk's passes with ZeRO-3, compared with sums by hand. */
#include "sim/cost/group_links.h"
#include "sim/engine/data_parallel.h"
#include "sim/engine/offload.h"
#include "sim/engine/simulate.h"
#include "tests/sim/planned.h"
#include "tests/testing.h"

#include <stdio.h>

static double data_comm_s(int messages)
{
    planned.system.stack.shards.layer_messages = messages;
    struct evaluator *evaluator = evaluator_new(&planned.system, &planned.model);
    double seconds = evaluate(evaluator, &planned.plan).time.data_comm_s;
    evaluator_free(evaluator);
    return seconds;
}

/* A layer's weights are gathered, and its gradients reduced, in a number of messages that each
 * carry a part. */
static struct data_comm layer_comm(int messages)
{
    const struct system *system = &planned.system;
    const struct plan *plan = &planned.plan;
    const struct piece_cost *layer = &planned.pieces.at[0];
    struct data_groups dense = network_data_groups(system, plan);
    struct data_comm comm =
        data_comm(&system->stack, plan, &dense, (layer->parameters - layer->of_experts) / messages);
    if (layer->of_experts > 0) {
        struct data_groups own = network_expert_data_groups(system, plan);
        struct data_comm experts =
            data_comm(&system->stack, plan, &own, layer->of_experts / messages);
        comm.gather_s += experts.gather_s;
        comm.reduce_s += experts.reduce_s;
    }
    return (struct data_comm){ messages * comm.reduce_s, messages * comm.gather_s };
}

/* Seconds of a microbatch's passes on the only stage. */
static struct stage_score passes_with(const char *layout)
{
    struct stage_share all = { .layers = planned.model.layers };
    planned_layout(layout);
    struct evaluator *evaluator = evaluator_new(&planned.system, &planned.model);
    struct stage_score score = evaluate_stage(evaluator, &planned.plan, &all);
    evaluator_free(evaluator);
    return score;
}

/* Without prefetch each layer waits for its weights, as without any overlap. In the backward, the
 * reduction of a layer's gradients overlaps the next layer's backward; the last reduction is
 * exposed. */
START_TEST(without_prefetch_only_reductions_overlap)
{
    planned_load("dgx-h100", "torchtitan", "gpt3-1.3b", 16);
    planned.model.batch = 16;
    planned.system.stack.shards.prefetch = 0;
    planned.system.stack.shards.message_per_rank_s = 0;
    struct stage_score none = passes_with("dp16 mb1 zero3 overlap=none");
    struct stage_score some = passes_with("dp16 mb1 zero3 overlap=param");
    double layers = planned.model.layers, layer_s = planned.pieces.at[0].backward.total_s;
    double reduce_s = layer_comm((int)planned.system.stack.shards.layer_messages).reduce_s;
    double both_s = overlapped_s(&planned.system.profile, layer_s, reduce_s);
    ck_assert_double_eq_tol(some.forward_s, none.forward_s, 1e-12);
    ck_assert_double_gt(reduce_s, 0);
    ck_assert_double_eq_tol(some.backward_s - none.backward_s,
                            layers * (both_s - layer_s - reduce_s) + reduce_s, 1e-9);
    planned_release();
}
END_TEST

static const struct {
    const char *model, *layout;
} cases[] = { { "gpt3-1.3b", "dp16 mb1 zero3 overlap=none" },
              { "mixtral-8x7b", "dp16 ep4 mb1 zero3 overlap=none" } };

/* More messages add more latencies. */
START_TEST(a_layer_is_gathered_in_the_stacks_number_of_messages)
{
    planned_load("dgx-h100", "torchtitan", cases[_i].model, 16);
    planned.model.batch = 64;
    planned.system.stack.shards.message_per_rank_s = 0;
    planned_layout(cases[_i].layout);
    double gathers = weight_gathers(&planned.system.stack, &planned.plan, 4);
    double one_s = data_comm_s(1);
    struct data_comm one = layer_comm(1);
    ck_assert(planned.pieces.at[0].of_experts > 0 || _i == 0);
    for (int messages = 2; messages <= 6; messages += 2) {
        struct data_comm many = layer_comm(messages);
        double reduced_s = 4 * (many.reduce_s - one.reduce_s);
        double gathered_s = gathers * (many.gather_s - one.gather_s);
        double added_s = planned.model.layers * (reduced_s + gathered_s);
        ck_assert_double_gt(added_s, 0);
        ck_assert_double_eq_tol(data_comm_s(messages) - one_s, added_s, 1e-9 * one_s);
    }
    planned_release();
}
END_TEST

static struct stage_score score_of(const char *layout)
{
    planned_layout(layout);
    struct evaluator *evaluator = evaluator_new(&planned.system, &planned.model);
    struct stage_share share = { 0, planned.model.layers / planned.plan.pp, 0, 0 };
    struct stage_score score = evaluate_stage(evaluator, &planned.plan, &share);
    evaluator_free(evaluator);
    return score;
}

/* Eight stages have three layers each. The slowest link exposes most of the copies to the host, the
 * fastest nearly none. In a pipeline the last two layers are copied too. */
START_TEST(offloaded_activations_are_copied_during_the_layers_passes)
{
    static const double speeds[] = { 0.02, 0.2, 0.5, 1, 4 };
    /* the stage's score includes blocking messages, which no copy overlaps */
    const double slack_s = _i ? 3e-4 : 1e-12;
    const char *layout = _i ? "tp2 pp8 mb1 overlap=p2p" : "tp2 mb1 overlap=none";
    for (int i = 0; i < LENGTH(speeds); i++) {
        char copied[100];
        planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 16);
        planned.model.batch = 64;
        planned.system.gpu.pcie_bytes_per_s *= speeds[i];
        struct stage_score kept = score_of(layout);
        int layers = planned.model.layers / planned.plan.pp;
        double copy_s = host_copy_s(&planned.system, planned.pieces.at[0].saved_bytes);
        double down_s = layers_copy_exposed_s(layers, kept.forward_s / layers, copy_s);
        double up_s = layers_copy_exposed_s(layers, kept.backward_s / layers, copy_s);
        if (_i)
            down_s += chunk_copy_exposed_s(layers, kept.forward_s + down_s, kept.backward_s + up_s,
                                           copy_s);
        snprintf(copied, sizeof copied, "%s offload=activations", layout);
        struct stage_score away = score_of(copied);
        ck_assert_double_eq_tol(away.forward_s - kept.forward_s, down_s, slack_s);
        ck_assert_double_eq_tol(away.backward_s - kept.backward_s, up_s, slack_s);
        planned_release();
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("chunk");
    tcase_add_test(tc, without_prefetch_only_reductions_overlap);
    tcase_add_loop_test(tc, a_layer_is_gathered_in_the_stacks_number_of_messages, 0, LENGTH(cases));
    tcase_add_loop_test(tc, offloaded_activations_are_copied_during_the_layers_passes, 0, 2);
    Suite *s = suite_create("sim/engine/chunk");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
