/* not under tsan: the test has only one thread. */
/* Tests the time that a stage adds once per step (reductions, update, copies), against sums by
 * hand. */
#include "sim/cost/exchange.h"
#include "sim/cost/stage_load.h"
#include "sim/engine/data_parallel.h"
#include "sim/engine/offload.h"
#include "sim/engine/simulate.h"
#include "sim/exchange/averaging.h"
#include "tests/sim/planned.h"
#include "tests/testing.h"

#include <math.h>

/* Loads a small model on 16 GPUs with this layout. */
static void load(const char *layout)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 16);
    planned.model.batch = 64;
    planned_layout(layout);
}

static struct stage_cost stage_cost(int stage)
{
    struct evaluator *evaluator = evaluator_new(&planned.system, &planned.model);
    struct step_cost cost = evaluate_cost(evaluator, &planned.plan, &planned.arena);
    evaluator_free(evaluator);
    return cost.stages[stage];
}

static struct stage_score stage_score(int stage)
{
    struct evaluator *evaluator = evaluator_new(&planned.system, &planned.model);
    struct stage_share share = { stage, planned.model.layers / planned.plan.pp, 0, 0 };
    struct stage_score score = evaluate_stage(evaluator, &planned.plan, &share);
    evaluator_free(evaluator);
    return score;
}

static void check_near(double got_s, double expected_s)
{
    ck_assert_msg(fabs(got_s - expected_s) <= 1e-12 * expected_s, "got %.15g s, expected %.15g s",
                  got_s, expected_s);
}

/* --- an optimizer on the host -------------------------------------------------------------------
 */

/* Host time of launching the update of each tensor. A block of GPT-3 has twelve tensors: weight and
 * bias of four products and of two norms. The first stage also holds the embeddings of tokens and
 * positions. The last stage holds the two tensors of the final norm and, if there are several
 * stages, its copy of the token embedding. */
static double walk_s(int stage)
{
    const struct stack_host *host = &planned.system.stack.host;
    int pp = planned.plan.pp;
    int tensors = 12 * planned.model.layers / pp + (stage == 0 ? 2 : 0) +
                  (stage == pp - 1 ? 2 : 0) + (stage == pp - 1 && pp > 1);
    return tensors * host->tensor_launches * host->issue_s;
}

static double device_s(int stage)
{
    return walk_s(stage) + optimizer_s(&planned.system, &planned.model, &planned.plan,
                                       (struct stage_weights){ planned_parameters(stage), 0 });
}

static struct host_optimizer host(int stage)
{
    return host_optimizer(&planned.system, &planned.model, &planned.plan,
                          (struct stage_weights){ planned_parameters(stage), 0 });
}

/* Weights are copied back during the update. If the copy takes longer than the update, only the
 * difference is exposed. */
START_TEST(weights_are_copied_back_during_the_update)
{
    static const char *const layouts[] = { "tp2 pp2 mb1 offload=optimizer overlap=none",
                                           "pp4 zero1 mb2 offload=optimizer overlap=none" };
    for (int i = 0; i < LENGTH(layouts); i++)
        for (int stage = 0; stage < 2; stage++) {
            load(layouts[i]);
            struct host_optimizer slow = host(stage);
            ck_assert_double_lt(slow.up_s, slow.update_s);
            check_near(stage_cost(stage).optimizer_s,
                       device_s(stage) + slow.down_s + slow.update_s);
            planned.system.cluster.host_bytes_per_s *= 1e3;
            struct host_optimizer quick = host(stage);
            ck_assert_double_gt(quick.up_s, quick.update_s);
            check_near(stage_cost(stage).optimizer_s, device_s(stage) + quick.down_s + quick.up_s);
            planned_release();
        }
}
END_TEST

/* The exposed time of copying gradients in ten buckets, i.e. the time that reductions and backward
 * do not hide. */
static double ten_copies_s(double down_s, double window_s, double reduction_s)
{
    double reduced_s = exposed_s(&planned.system.profile, reduction_s, window_s, 10);
    return fmax(down_s / 10, reduction_s / 10 + down_s - 0.9 * window_s - reduced_s);
}

/* Without a bucket size all gradients of a chunk are one bucket, whose copy starts after the
 * backward and is not hidden. With ten buckets each bucket is copied after its reduction, while the
 * backward goes on. The exposed time is the time of the last copy or, if this is longer, the time
 * for which copies go on after backward and reductions have ended. */
START_TEST(gradients_are_copied_to_the_host_during_backward_and_reductions)
{
    static const double link_speeds[] = { 4, 0.5, 4 }, wire_speeds[] = { 1, 1, 0.02 };
    load("tp2 mb1 offload=optimizer overlap=grad");
    struct level *node = &planned.system.cluster.levels[0];
    planned.system.gpu.pcie_bytes_per_s *= link_speeds[_i];
    node->bytes_per_s *= wire_speeds[_i];
    node->channel_bytes_per_s *= wire_speeds[_i];
    planned.system.cluster.levels[1].bytes_per_s *= wire_speeds[_i];
    planned.system.stack.shards.bucket_bytes = 0;
    struct host_optimizer of = host(0);
    double returned_s = fmax(of.update_s, of.up_s), reduction_s = stage_score(0).data_comm_s;
    check_near(stage_cost(0).optimizer_s, device_s(0) + of.down_s + returned_s);
    double bytes = planned_parameters(0) * dtype_bytes((enum dtype)planned.plan.reduce_dtype);
    planned.system.stack.shards.bucket_bytes = bytes / 10;
    double copies_s = ten_copies_s(of.down_s, stage_score(0).backward_s, reduction_s);
    ck_assert_int_eq(copies_s == of.down_s / 10, _i != 1);
    check_near(stage_cost(0).optimizer_s, device_s(0) + copies_s + returned_s);
}
END_TEST

/* --- exchanges ----------------------------------------------------------------------------------
 */

/* The cost of exchanging a stage's share of the gradients or weights. */
static struct exchange_cost exchanged(int stage, double share)
{
    static struct stage_load load;
    fill_stage_load(&planned.model, &planned.plan, &planned.pieces, stage, share, &load);
    return exchange_cost(&planned.system, &planned.plan, &load.load,
                         averaging_share(&planned.plan.exchange, &planned.model));
}

/* Without overlap a step waits for the exchange on the network and for the GPU, which encodes and
 * decodes messages. */
START_TEST(compression_time_is_added_to_message_time)
{
    static const char *const layouts[] = { "tp2 pp2 mb1 overlap=none exchange=topk:0.01",
                                           "tp4 mb1 overlap=none exchange=qsgd:8",
                                           "tp4 mb1 overlap=none exchange=powersgd:4" };
    load(layouts[_i]);
    for (int stage = 0; stage < planned.plan.pp; stage++) {
        struct exchange_cost cost = exchanged(stage, 1);
        struct stage_cost got = stage_cost(stage);
        ck_assert_double_gt(cost.memory_s, 0);
        check_near(got.reduce_s, cost.gradients_s + cost.memory_s);
        ck_assert_double_eq(got.mix_s, 0);
        check_near(stage_score(stage).data_comm_s - got.tied_s, cost.gradients_s + cost.memory_s);
    }
}
END_TEST

START_TEST(averaging_time_is_added_to_message_time)
{
    load(_i ? "tp2 mb1 overlap=none exchange=gossip:ring"
            : "tp2 mb1 overlap=none exchange=local:4");
    struct exchange_cost cost = exchanged(0, 1);
    struct stage_cost got = stage_cost(0);
    ck_assert(_i == 0 || cost.memory_s > 0);
    check_near(got.mix_s, cost.weights_s + cost.memory_s);
    ck_assert_double_eq(got.reduce_s, 0);
    check_near(stage_score(0).data_comm_s, cost.weights_s + cost.memory_s);
}
END_TEST

/* Network time overlaps the last backward bucket by bucket; the device's work does not. */
START_TEST(device_work_for_messages_is_fully_exposed)
{
    load("tp4 mb1 overlap=grad exchange=topk:0.01");
    double bytes = planned_parameters(0) * plan_exchange_bytes(&planned.plan);
    planned.system.stack.shards.bucket_bytes = bytes / 4;
    struct exchange_cost bucket = exchanged(0, 0.25);
    double window_s = stage_score(0).backward_s;
    double wire_s = exposed_s(&planned.system.profile, 4 * bucket.gradients_s, window_s, 4);
    ck_assert_double_lt(wire_s, 4 * bucket.gradients_s);
    check_near(stage_score(0).data_comm_s, wire_s + 4 * bucket.memory_s);
}
END_TEST

/* If the average of the weights overlaps all passes, it adds the exposed network time and all of
 * the GPU's work to a step. */
START_TEST(an_overlapped_average_still_exposes_its_device_work)
{
    load("tp2 mb1 exchange=gossip:one-peer:combine=beside");
    /* one bucket, because each bucket adds a kernel */
    planned.system.stack.shards.bucket_bytes = 0;
    struct exchange_cost cost = exchanged(0, 1);
    struct stage_score score = stage_score(0);
    double passes_s = 8 * (score.forward_s + score.backward_s + score.weight_s);
    double wire_s = exposed_s(&planned.system.profile, cost.weights_s, passes_s, HUGE_VAL);
    ck_assert_double_lt(wire_s, cost.weights_s);
    check_near(score.data_comm_s, wire_s + cost.memory_s);
    check_near(stage_cost(0).mix_s, cost.weights_s + cost.memory_s);
}
END_TEST

/* --- the executor's last backward ---------------------------------------------------------------
 */

static double all_reduce_s(double parameters)
{
    struct data_groups data = network_data_groups(&planned.system, &planned.plan);
    return data_comm(&planned.system.stack, &planned.plan, &data, parameters).reduce_s;
}

/* Exposed time of the gradient reduction when the executor runs on 16 GPUs. Overlap slows nothing
 * down, links are `speed` times faster than the cluster's, and launching op by op costs as much as
 * a graph. */
static double executor_reduce_s(const char *layout, double speed)
{
    planned_load("dgx-h100", "cuda", "gpt3-1.3b", 16);
    planned.model.batch = 64;
    planned_layout(layout);
    planned.system.stack.host.issue_s = planned.system.stack.host.graph_kernel_s;
    planned.system.profile.overlap_compute_slowdown = 1;
    planned.system.profile.overlap_comm_slowdown = 1;
    planned.system.cluster.levels[0].bytes_per_s *= speed;
    planned.system.cluster.levels[0].channel_bytes_per_s *= speed;
    planned.system.cluster.levels[1].bytes_per_s *= speed;
    return stage_cost(0).reduce_s;
}

/* The time of one piece (layer, embedding or head) within the last backward. */
static double piece_s(int piece)
{
    double lists_s = planned.pieces.at[PIECE_EMBEDDING].backward.total_s +
                     planned.pieces.at[PIECE_HEAD].backward.total_s +
                     planned.model.layers * planned.pieces.at[0].backward.total_s;
    return planned.pieces.at[piece].backward.total_s / lists_s * stage_score(0).backward_s;
}

/* On fast links a layer's reduction ends before the next layer's gradients are ready. Two
 * reductions are then exposed: that of the first layer, minus the embedding's short backward, and
 * that of the embedding. On slow links the reductions run one after another, from the last layer's
 * gradients on, without idle time. The head has only the gradients of a norm, as it shares the
 * embedding's matrix. */
START_TEST(the_executor_reduces_layers_during_the_last_backward)
{
    double fast_s = executor_reduce_s("mb4", 8);
    double layer_s = all_reduce_s(planned.pieces.at[0].parameters);
    double embedding_s = all_reduce_s(planned.pieces.at[PIECE_EMBEDDING].parameters);
    ck_assert(layer_s > piece_s(PIECE_EMBEDDING) && layer_s < piece_s(0));
    check_near(fast_s, layer_s - piece_s(PIECE_EMBEDDING) + embedding_s);
    planned_release();
    double slow_s = executor_reduce_s("mb4", 1e-3);
    embedding_s = all_reduce_s(planned.pieces.at[PIECE_EMBEDDING].parameters);
    double sums_s =
        embedding_s + planned.model.layers * all_reduce_s(planned.pieces.at[0].parameters);
    double first_s = fmax(all_reduce_s(planned.pieces.at[PIECE_HEAD].parameters), piece_s(0));
    check_near(slow_s, piece_s(PIECE_HEAD) + first_s + sums_s - stage_score(0).backward_s);
    planned_release();
    double after_s = executor_reduce_s("mb1 overlap=none", 1);
    check_near(after_s, all_reduce_s(planned_parameters(0)));
}
END_TEST

/* A pass with collectives is not launched as a graph, so it takes longer if the host is slower than
 * the GPU. */
START_TEST(the_last_backward_is_launched_op_by_op)
{
    double in_graph_s = executor_reduce_s("mb1", 1);
    planned.system.stack.host.issue_s = 1e-3;
    double kernels = planned.pieces.at[PIECE_EMBEDDING].backward.kernels +
                     planned.pieces.at[PIECE_HEAD].backward.kernels +
                     planned.model.layers * planned.pieces.at[0].backward.kernels;
    double gpu_s = stage_score(0).backward_s, host_s = 1e-3 * kernels;
    double longer_s = pow(pow(gpu_s, 4) + pow(host_s, 4), 0.25) - gpu_s;
    ck_assert_double_gt(longer_s, 0.1 * gpu_s);
    ck_assert_double_eq_tol((stage_cost(0).reduce_s - in_graph_s) / longer_s, 1, 0.02);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("tail");
    tcase_add_checked_fixture(tc, NULL, planned_release);
    tcase_add_test(tc, weights_are_copied_back_during_the_update);
    tcase_add_loop_test(tc, gradients_are_copied_to_the_host_during_backward_and_reductions, 0, 3);
    tcase_add_loop_test(tc, compression_time_is_added_to_message_time, 0, 3);
    tcase_add_loop_test(tc, averaging_time_is_added_to_message_time, 0, 2);
    tcase_add_test(tc, device_work_for_messages_is_fully_exposed);
    tcase_add_test(tc, an_overlapped_average_still_exposes_its_device_work);
    tcase_add_test(tc, the_executor_reduces_layers_during_the_last_backward);
    tcase_add_test(tc, the_last_backward_is_launched_op_by_op);
    Suite *s = suite_create("sim/engine/tail");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
