#include "models/learning_curve.h"
#include "sim/campaign/time_to_accuracy.h"
#include "sim/cost/exchange.h"
#include "sim/cost/stage_load.h"
#include "sim/cost/straggler.h"
#include "sim/cost/waiting.h"
#include "sim/engine/simulate.h"
#include "sim/exchange/averaging.h"
#include "sim/memory/held.h"
#include "sim/plan/axis.h"
#include "sim/plan/group.h"
#include "sim/plan/local.h"
#include "sim/plan/ranks.h"
#include "tests/sim/cost/wires.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct arena arena;
static struct err err;
static struct system v100; /* 32 nodes of 8 V100, which share a NIC of 25 Gb/s */

static void setup(void)
{
    ck_assert_msg(system_load("p3-v100-16g", "torch-ddp", 256, &v100, &err), "%s: %s", err.where,
                  err.msg);
}

static void teardown(void)
{
    system_release(&v100);
    arena_release(&arena);
}

static struct plan parsed(const char *layout)
{
    struct plan plan;
    ck_assert_msg(plan_parse(layout, &arena, &plan, &err), "%s: %s", err.where, err.msg);
    return plan;
}

static struct plan exchanging(int data_ranks, const char *exchange)
{
    char layout[128];
    snprintf(layout, sizeof layout, "dp%d dtype=fp32 exchange=%s", data_ranks, exchange);
    return parsed(layout);
}

/* Seconds that the network needs to exchange one tensor. */
static double wire_s(int data_ranks, const char *exchange, double bytes)
{
    struct plan plan = exchanging(data_ranks, exchange);
    struct exchange_tensor tensor = { bytes / 4 / 1024, 1024, 1 };
    struct exchange_load load = { &tensor, 1, 4 };
    struct exchange_cost cost =
        exchange_cost(&v100, &plan, &load, 1.0 / exchange_cycle(&plan.exchange));
    return cost.gradients_s + cost.weights_s;
}

/* Time of a message between nodes when every GPU has an equal share of the NIC. */
static double crossing_s(double bytes)
{
    struct plan plan = exchanging(256, "gossip:ring");
    struct comm_group pair = pair_of(&v100, &plan, DATA_RANKS, true);
    return point_to_point_s(&pair, bytes);
}

static double inside_s(double bytes)
{
    struct plan plan = exchanging(256, "gossip:ring");
    struct comm_group pair = pair_of(&v100, &plan, DATA_RANKS, false);
    return point_to_point_s(&pair, bytes);
}

static const char *const all[] = {
    "ring",
    "tree",
    "hierarchical",
    "ps:1",
    "ps:7",
    "async:2:servers=8",
    "gossip:ring",
    "gossip:grid",
    "gossip:exp",
    "gossip:one-peer",
    "gossip:one-peer:combine=beside",
    "gossip:exp:group=8",
    "local:4",
    "pga:6",
    "aga:4:group=8",
    "qsgd:4",
    "topk:0.01",
    "ef21:0.05",
    "neolithic:0.01",
    "powersgd:4",
    "median:3",
    "trimmed:3",
};
enum { NUM_ALL = LENGTH(all) };

START_TEST(more_bytes_take_longer)
{
    double before_s = 0;
    for (double bytes = 1 << 16; bytes <= 1 << 30; bytes *= 4) {
        double now_s = wire_s(64, all[_i], bytes);
        ck_assert_double_gt(now_s, before_s);
        before_s = now_s;
    }
}
END_TEST

START_TEST(doubling_the_network_never_lengthens_an_exchange)
{
    double before_s = wire_s(64, all[_i], 1e8);
    v100.cluster.levels[1].bytes_per_s *= 2;
    v100.cluster.levels[1].channel_bytes_per_s *= 2;
    double now_s = wire_s(64, all[_i], 1e8);
    ck_assert_double_lt(now_s, before_s);
    ck_assert_double_ge(now_s, before_s / 2);
}
END_TEST

/* --- hand calculations ------------------------------------------------------------------------ */

/* The exchange of S bytes over 16 ranks has 2 x 15 rounds of S/16 bytes. Only one rank of a node
 * sends to another node, so it has the whole NIC: its message takes as long as an eighth of the
 * bytes at one rank's share of the NIC. */
START_TEST(a_ring_exchange_takes_the_sum_of_its_rounds)
{
    ck_assert_double_eq_tol(wire_s(16, "ring", 1e8), 30 * crossing_s(1e8 / 16 / 8), 1e-12);
}
END_TEST

/* In a tree, ranks at distance 1, 2 and 4 are in one node, and ranks at distance 8 in two. */
START_TEST(a_tree_exchange_takes_its_hops_up_and_down)
{
    ck_assert_double_eq_tol(wire_s(16, "tree", 1e8), 2 * (3 * inside_s(1e8) + crossing_s(1e8 / 8)),
                            1e-12);
}
END_TEST

/* The first and the last rank of a node have a ring neighbour in another node, so two messages of a
 * node go over its NIC. */
START_TEST(ring_gossip_crosses_nodes_at_the_ends_of_a_node)
{
    ck_assert_double_eq_tol(wire_s(64, "gossip:ring", 1e8), crossing_s(1e8 * 2 / 8) + inside_s(1e8),
                            1e-12);
}
END_TEST

/* In one-peer gossip on 16 ranks, a rank sends to the rank at distance 1, 2, 4 or 8. At distance 1,
 * 2 or 4, that many of a node's ranks send to another node; at distance 8 all of them do. */
START_TEST(one_peer_gossip_takes_the_mean_over_its_distances)
{
    double sum_s =
        crossing_s(1e8 / 8) + crossing_s(1e8 / 4) + crossing_s(1e8 / 2) + crossing_s(1e8);
    ck_assert_double_eq_tol(wire_s(16, "gossip:one-peer", 1e8), sum_s / 4, 1e-12);
}
END_TEST

/* Gossip between groups of one node: an all-reduce within each node, a message of an eighth of the
 * bytes from each rank to its peer in the other node, and an all-gather within each node. */
START_TEST(gossip_between_nodes_sends_each_byte_once_out_of_a_node)
{
    struct plan plan = exchanging(64, "gossip:one-peer:group=8");
    struct comm_group node = group_at(&v100, layout_stride(&plan, AXIS_DATA), 8);
    double expected_s = collective_s(&node, COLLECTIVE_ALL_REDUCE, 1e8) + crossing_s(1e8 / 8) +
                        collective_s(&node, COLLECTIVE_ALL_GATHER, 1e8);
    ck_assert_double_eq_tol(wire_s(64, "gossip:one-peer:group=8", 1e8), expected_s, 1e-12);
}
END_TEST

/* The single server receives 63 messages and sends 63; 56 of each use its node's NIC. */
START_TEST(a_single_server_receives_and_sends_all_ranks_messages)
{
    ck_assert_double_eq_tol(wire_s(64, "ps:1", 1e8),
                            2 * (56 * crossing_s(1e8 / 8) + 7 * inside_s(1e8)), 1e-9);
}
END_TEST

/* With 12 or with 16 servers on 8 nodes, the busiest node has 2. Each server receives a part from
 * the 56 ranks of other nodes. With 7 servers, a node with a server receives 56 parts, and the node
 * without one sends 56. */
START_TEST(the_node_with_most_servers_limits_a_sharded_server)
{
    static const struct {
        const char *exchange;
        int servers, parts;
    } cases[] = { { "ps:7", 7, 56 }, { "ps:12", 12, 112 }, { "ps:16", 16, 112 } };
    for (int i = 0; i < LENGTH(cases); i++) {
        double part_bytes = 1e9 / cases[i].servers;
        ck_assert_double_eq_tol(
            wire_s(64, cases[i].exchange, 1e9) / 2,
            cases[i].parts * crossing_s(part_bytes / 8) + 7 * inside_s(part_bytes), 1e-3);
    }
}
END_TEST

START_TEST(a_servers_time_grows_with_ranks_but_gossips_does_not)
{
    ck_assert_double_gt(wire_s(256, "ps:1", 1e8), 3.9 * wire_s(64, "ps:1", 1e8));
    ck_assert_double_eq_tol(wire_s(256, "gossip:ring", 1e8), wire_s(64, "gossip:ring", 1e8), 1e-12);
    ck_assert_double_lt(wire_s(256, "ps:64", 1e8), 0.2 * wire_s(256, "ps:1", 1e8));
}
END_TEST

START_TEST(a_period_takes_its_fraction_of_an_all_reduce)
{
    double all_s = wire_s(64, "allreduce", 1e8), gossip_s = wire_s(64, "gossip:one-peer", 1e8);
    ck_assert_double_eq_tol(wire_s(64, "local:4", 1e8), all_s / 4, 1e-12);
    ck_assert_double_eq_tol(wire_s(64, "pga:5", 1e8), (all_s + 4 * gossip_s) / 5, 1e-12);
    ck_assert_double_eq_tol(wire_s(64, "pga:1", 1e8), all_s, 1e-12);
}
END_TEST

/* Each kept 4-byte element takes 8 bytes, and goes from every rank to all n ranks. If 0.01 n > 1,
 * that is more than an all-reduce moves. */
START_TEST(gathered_sparse_messages_are_faster_only_on_few_ranks)
{
    ck_assert_double_lt(wire_s(16, "topk:0.01", 1e9), 0.2 * wire_s(16, "allreduce", 1e9));
    ck_assert_double_gt(wire_s(256, "topk:0.01", 1e9), wire_s(256, "allreduce", 1e9));
    struct plan plan = exchanging(64, "topk:0.01");
    struct comm_group group = network_plan_group(&v100, &plan, replicated_axes());
    double message_bytes = 8 * ceil(0.01 * 25e7);
    ck_assert_double_eq_tol(wire_s(64, "topk:0.01", 1e9),
                            collective_s(&group, COLLECTIVE_ALL_GATHER, 64 * message_bytes), 1e-12);
}
END_TEST

/* By an all-to-all each rank gets its share of the elements from all ranks; by an all-gather it
 * sends the result to all. Krum also exchanges the distances between the 64 ranks. */
START_TEST(a_robust_rule_is_an_all_to_all_and_a_gather)
{
    struct plan plan = exchanging(64, "median");
    struct comm_group group = network_plan_group(&v100, &plan, replicated_axes());
    double median_s = all_to_all_s(&group, 1e9) + collective_s(&group, COLLECTIVE_ALL_GATHER, 1e9);
    double distances_s = collective_s(&group, COLLECTIVE_ALL_REDUCE, 8.0 * 64 * 64);
    ck_assert_double_eq_tol(wire_s(64, "median", 1e9), median_s, 1e-12);
    ck_assert_double_eq_tol(wire_s(64, "krum", 1e9), median_s + distances_s, 1e-12);
}
END_TEST

/* --- exchanges in a step ---------------------------------------------------------------- */

static struct model small_model(void)
{
    struct model model;
    ck_assert(model_load("gpt3-1.3b", &model, &err));
    model.batch = 256;
    return model;
}

static struct prediction predicted(const char *layout)
{
    struct model model = small_model();
    struct plan plan = parsed(layout);
    ck_assert(plan_derive_data(&plan, 256, &err));
    ck_assert_msg(!plan_check(&plan, &model, model.batch, 256, &err) &&
                      system_check(&v100, &plan, &err),
                  "%s: %s", err.where, err.msg);
    struct evaluator *evaluator = evaluator_new(&v100, &model);
    struct prediction prediction = evaluate(evaluator, &plan);
    double bound_s = evaluate_bound_s(evaluator, &plan);
    double floor_s = evaluate_floor_s(evaluator, &plan);
    evaluator_free(evaluator);
    prediction.stages = NULL;
    ck_assert_double_le(bound_s, prediction.step_s * (1 + 1e-12));
    ck_assert_double_le(floor_s, bound_s * (1 + 1e-12));
    return prediction;
}

START_TEST(for_every_exchange_bounds_hold_and_parts_add_up)
{
    char layout[128];
    for (int pp = 1; pp <= 4; pp *= 4) {
        snprintf(layout, sizeof layout, "tp2 pp%d mb1 dtype=fp16 exchange=%s", pp, all[_i]);
        struct prediction p = predicted(layout);
        double sum_s = 0;
        for (int i = 0; i < num_time_parts; i++)
            sum_s += time_part_s(&p.time, i);
        ck_assert_double_eq_tol(sum_s, p.step_s, 1e-9 * p.step_s);
        ck_assert_double_gt(p.time.data_comm_s, 0);
    }
}
END_TEST

START_TEST(overlapped_averaging_takes_less_time_and_more_memory)
{
    struct prediction after = predicted("tp8 mb1 dtype=fp16 exchange=gossip:one-peer");
    struct prediction beside =
        predicted("tp8 mb1 dtype=fp16 exchange=gossip:one-peer:combine=beside");
    ck_assert_double_lt(beside.step_s, after.step_s);
    ck_assert_double_gt(beside.peak_memory_bytes, after.peak_memory_bytes);
}
END_TEST

/* Memory of one more copy of the gradients or weights. */
static double copy_bytes(void)
{
    struct model model = small_model();
    struct plan plan = parsed("tp8 mb1 dtype=fp16");
    double elements = model.layers * local_layer_parameters(rank_share_of(&plan), &model) +
                      local_embedding_parameters(rank_share_of(&plan), &model) +
                      local_head_parameters(rank_share_of(&plan), &model);
    return (1 + v100.stack.memory.allocator_slack) * 4 * elements;
}

/* The median of a bucket overlaps the rest of the backward; the geometric median first needs the
 * distances between whole gradients. */
START_TEST(rules_that_weigh_whole_gradients_are_not_overlapped)
{
    struct prediction geomedian = predicted("tp1 mb1 dtype=fp16 exchange=geomedian");
    struct prediction apart = predicted("tp1 mb1 dtype=fp16 overlap=none exchange=geomedian");
    struct prediction median = predicted("tp2 mb2 dtype=fp16 exchange=median");
    struct prediction after = predicted("tp2 mb2 dtype=fp16 overlap=none exchange=median");
    ck_assert_double_eq(geomedian.time.data_comm_s, apart.time.data_comm_s);
    ck_assert_double_lt(median.time.data_comm_s, after.time.data_comm_s);
}
END_TEST

/* The gradient sums of the previous step overlap all passes of this step. The current sum, and each
 * sum that is still under way, need a copy of the gradients. */
START_TEST(late_gradients_overlap_the_passes_and_need_memory)
{
    struct prediction now = predicted("tp8 mb1 dtype=fp16 exchange=ps:32");
    struct prediction late = predicted("tp8 mb1 dtype=fp16 exchange=async:1:servers=32");
    struct prediction later = predicted("tp8 mb1 dtype=fp16 exchange=async:3:servers=32");
    ck_assert_double_lt(late.step_s, now.step_s);
    ck_assert_double_eq_tol(late.peak_memory_bytes - now.peak_memory_bytes, 2 * copy_bytes(),
                            1e-6 * copy_bytes());
    ck_assert_double_eq_tol(later.peak_memory_bytes - late.peak_memory_bytes, 2 * copy_bytes(),
                            1e-6 * copy_bytes());
}
END_TEST

/* Each of the 32 data ranks has two neighbours in a ring, and five in the exponential graph. */
START_TEST(gossip_memory_holds_the_weights_of_all_neighbours)
{
    double one = predicted("tp8 mb1 dtype=fp16 exchange=gossip:one-peer").peak_memory_bytes;
    double ring = predicted("tp8 mb1 dtype=fp16 exchange=gossip:ring").peak_memory_bytes;
    double five = predicted("tp8 mb1 dtype=fp16 exchange=gossip:exp").peak_memory_bytes;
    ck_assert_double_eq_tol(ring - one, copy_bytes(), 1e-6 * copy_bytes());
    ck_assert_double_eq_tol(five - one, 4 * copy_bytes(), 1e-6 * copy_bytes());
}
END_TEST

START_TEST(error_memory_is_one_copy_of_the_gradients)
{
    double on = predicted("tp8 mb1 dtype=fp16 exchange=topk:0.01").peak_memory_bytes;
    double off = predicted("tp8 mb1 dtype=fp16 exchange=topk:0.01:memory=off").peak_memory_bytes;
    ck_assert_double_eq_tol(on - off, copy_bytes(), 1e-6 * copy_bytes());
}
END_TEST

/* A stage exchanges as many elements as it has parameters, whichever stages hold a tied embedding.
 */
START_TEST(a_stages_exchanged_elements_are_its_parameters)
{
    static const char *const models[] = { "gpt3-1.3b", "llama3-8b", "qwen2.5-7b", "bloom-176b" };
    struct model model;
    ck_assert(model_load(models[_i], &model, &err));
    struct plan plan = parsed("tp2 pp2 dp64 mb1 dtype=fp16");
    struct pieces pieces = pieces_cost(&v100, &model, &plan, &arena);
    for (int stage = 0; stage < 2; stage++) {
        struct stage_load whole;
        fill_stage_load(&model, &plan, &pieces, stage, 1, &whole);
        double parameters = stage_parameters(&model, &plan, &pieces, stage);
        ck_assert_double_eq_tol(exchange_elements(&whole.load), parameters, 1e-9 * parameters);
    }
}
END_TEST

/* --- stragglers ------------------------------------------------------------------------------ */

static double step_s(const struct model *model, const struct plan *plan)
{
    struct evaluator *evaluator = evaluator_new(&v100, model);
    double seconds = evaluate_step_s(evaluator, plan);
    evaluator_free(evaluator);
    return seconds;
}

/* The step has one forward and one backward, and negligible messages. With gossip a rank waits for
 * fewer ranks, so its waiting falls in proportion to their expected delay; with an all-reduce
 * nothing is saved. */
START_TEST(a_gossip_step_waits_less_than_an_all_reduce_step)
{
    struct model model = small_model();
    struct plan ring = exchanging(256, "gossip:ring"), sum = exchanging(256, "ring");
    struct plan local = exchanging(256, "local:8");
    double spread = v100.profile.pass_spread;
    double ring_s = step_s(&model, &ring), sum_s = step_s(&model, &sum);
    double local_s = step_s(&model, &local);
    v100.profile.pass_spread = 0;
    double less_s = step_s(&model, &ring) - ring_s, none_s = step_s(&model, &sum) - sum_s;
    double local_less_s = step_s(&model, &local) - local_s;
    v100.profile.pass_spread = spread;
    double slowest = expected_maximum(256);
    double spared = slowest - exchange_wait(&ring.exchange, 256, 0);
    double local_spared = slowest - exchange_wait(&local.exchange, 256, 1.0 / 8);
    ck_assert_double_eq(none_s, 0);
    ck_assert_double_gt(less_s, 0);
    ck_assert_double_lt(less_s, spread * spared * sum_s);
    ck_assert_double_eq_tol(local_less_s / less_s, local_spared / spared, 1e-6);
}
END_TEST

/* A step has m passes of p seconds. With the waiting of an all-reduce they take T, and without
 * waiting f T. The slowest of n replicas ends E standard deviations later than the mean: f T + E
 * sqrt(f^2 A + f B) = T. The variances are A = m (spread p)^2, because pass times vary by `spread`,
 * and B = drift T, because clocks of replicas drift apart. A gossip step saves its share of this
 * waiting. */
START_TEST(the_bound_of_saved_waiting_is_exact_for_equal_passes)
{
    struct model model = small_model();
    struct plan ring = exchanging(256, "gossip:ring"), sum = exchanging(256, "ring");
    model.batch = 3.0 * ring.dp * ring.microbatch;
    v100.profile.drift_s = 2e-4;
    struct evaluator *evaluator = evaluator_new(&v100, &model);
    double expected = expected_maximum(256), once_s = v100.stack.host.step_s;
    double share = 1 - exchange_wait(&ring.exchange, 256, 0) / expected;
    for (double pass_s = 0.1; pass_s < 2; pass_s *= 3) {
        double all_s = 3 * pass_s, stray = v100.profile.pass_spread * pass_s;
        double spared_s = once_s - evaluate_least_once_s(evaluator, &ring, pass_s);
        double f = 1 - spared_s / (share * all_s);
        double deviation_s = sqrt(f * f * 3 * stray * stray + f * v100.profile.drift_s * all_s);
        ck_assert_double_gt(spared_s, 0);
        ck_assert_double_eq_tol(f * all_s + expected * deviation_s, all_s, 1e-9 * all_s);
        ck_assert_double_eq(evaluate_least_once_s(evaluator, &sum, pass_s), once_s);
    }
    evaluator_free(evaluator);
}
END_TEST

/* A permanently slow chip delays its neighbours, then their neighbours, and finally all ranks. */
START_TEST(a_permanently_slow_chip_delays_every_exchange)
{
    struct model model = small_model();
    struct plan ring = exchanging(256, "gossip:ring");
    double pass_spread = v100.profile.pass_spread, chip_spread = v100.profile.chip_spread;
    v100.profile.pass_spread = 0;
    double with_s = step_s(&model, &ring);
    v100.profile.chip_spread = 0;
    double without_s = step_s(&model, &ring);
    v100.profile.pass_spread = pass_spread;
    v100.profile.chip_spread = chip_spread;
    ck_assert_double_gt(with_s, without_s);
}
END_TEST

/* --- a period that adapts --------------------------------------------------------------------- */

/* H is the number of steps between two averages, and it grows during a run. So a run of many tokens
 * averages less often than every first H steps; a short run does not. */
START_TEST(an_adaptive_periods_step_is_the_mean_over_the_run)
{
    struct model model = small_model();
    struct plan pga = parsed("tp2 dp128 mb1 dtype=fp16"), aga = pga, gossip = pga;
    ck_assert(exchange_read("pga:4", &pga.exchange, &err));
    ck_assert(exchange_read("aga:4", &aga.exchange, &err));
    ck_assert(exchange_read("gossip:one-peer", &gossip.exchange, &err));
    model.tokens = 0;
    double first_s = step_s(&model, &aga);
    ck_assert_double_eq(first_s, step_s(&model, &pga));
    model.tokens = 300e9;
    double mean_s = step_s(&model, &aga), least_s = step_s(&model, &gossip);
    double period = 1 / averaging_share(&aga.exchange, &model);
    ck_assert_double_gt(period, 12);
    ck_assert_double_lt(period, 4 * log(model.vocab) / 1.69 + 1);
    ck_assert_double_eq_tol((mean_s - least_s) / (first_s - least_s), 4 / period, 1e-6);
}
END_TEST

/* By the published fit, the losses of Chinchilla (70 B, 1.4 T tokens) and Gopher (280 B, 300 B) are
 * 1.94 and 1.99. */
START_TEST(the_learning_curve_equals_the_published_fit)
{
    struct model model;
    ck_assert(model_load("llama3-70b", &model, &err));
    double parameters = model_parameters(&model);
    ck_assert_double_eq_tol(learning_curve_loss(&model, 1.4e12),
                            1.69 + 406.4 / pow(parameters, 0.34) + 0.1635, 1e-3);
    ck_assert_double_eq_tol(learning_curve_loss(&model, 1.4e12), 1.936, 0.003);
    ck_assert_double_eq(learning_curve_loss(&model, 0), log(model.vocab));
    ck_assert_double_eq(learning_curve_loss(&model, 1), log(model.vocab));
    ck_assert_double_lt(learning_curve_loss(&model, 2e12), learning_curve_loss(&model, 1e12));
}
END_TEST

/* --- time to accuracy ----------------------------------------------------------------------------
 */

START_TEST(time_to_accuracy_is_base_steps_plus_the_exchanges_steps_times_step_time)
{
    struct model model = small_model();
    model.tokens = 1e4 * model.batch * model.seq;
    struct plan sum = parsed("tp2 dp128 mb1 dtype=fp16"), other = sum;
    struct time_to_accuracy plain =
        time_to_accuracy(&convergence_published, &v100, &model, &sum, 2);
    ck_assert(exchange_read("local:2", &other.exchange, &err));
    struct time_to_accuracy local =
        time_to_accuracy(&convergence_published, &v100, &model, &other, 1);
    ck_assert_double_eq(plain.seconds, 2e4);
    ck_assert_double_eq(plain.steps, 1e4);
    ck_assert_double_gt(local.transient_steps, 0);
    ck_assert_double_eq(local.seconds, 1e4 + local.transient_steps);
}
END_TEST

/* 90 epochs of ImageNet, 32 images on each of 256 GPUs: one-peer graphs over the 32 nodes reached
 * all-reduce's accuracy in the same number of steps (Ying et al. 2021); by the theoretical bound,
 * they add at most as many steps. The group size of 8 is given, or follows from the GPUs of a node.
 * */
START_TEST(one_peer_graphs_over_nodes_need_the_published_steps)
{
    static const char *const words[] = { "gossip:one-peer:group=8", "gossip:one-peer:group=0" };
    struct model model = small_model();
    model.batch = 32 * 256;
    model.tokens = 90 * 1281167.0 * model.seq;
    struct plan plan = parsed("dp256 mb1 dtype=fp16");
    for (int i = 0; i < LENGTH(words); i++) {
        ck_assert(exchange_read(words[i], &plan.exchange, &err));
        struct time_to_accuracy to =
            time_to_accuracy(&convergence_published, &v100, &model, &plan, 1);
        ck_assert_int_eq(to.basis, STEPS_PUBLISHED);
        ck_assert_double_eq(to.all_reduce_steps, 14076);
        ck_assert_double_eq(to.steps, 14076);
        ck_assert_double_eq_tol(to.most_steps, 14076 + 14074, 1);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("exchange");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, more_bytes_take_longer, 0, NUM_ALL);
    tcase_add_loop_test(tc, doubling_the_network_never_lengthens_an_exchange, 0, NUM_ALL);
    tcase_add_test(tc, a_ring_exchange_takes_the_sum_of_its_rounds);
    tcase_add_test(tc, a_tree_exchange_takes_its_hops_up_and_down);
    tcase_add_test(tc, ring_gossip_crosses_nodes_at_the_ends_of_a_node);
    tcase_add_test(tc, one_peer_gossip_takes_the_mean_over_its_distances);
    tcase_add_test(tc, gossip_between_nodes_sends_each_byte_once_out_of_a_node);
    tcase_add_test(tc, a_single_server_receives_and_sends_all_ranks_messages);
    tcase_add_test(tc, the_node_with_most_servers_limits_a_sharded_server);
    tcase_add_test(tc, a_servers_time_grows_with_ranks_but_gossips_does_not);
    tcase_add_test(tc, a_period_takes_its_fraction_of_an_all_reduce);
    tcase_add_test(tc, gathered_sparse_messages_are_faster_only_on_few_ranks);
    tcase_add_test(tc, a_robust_rule_is_an_all_to_all_and_a_gather);
    tcase_add_test(tc, rules_that_weigh_whole_gradients_are_not_overlapped);
    tcase_add_loop_test(tc, for_every_exchange_bounds_hold_and_parts_add_up, 0, NUM_ALL);
    tcase_add_test(tc, overlapped_averaging_takes_less_time_and_more_memory);
    tcase_add_test(tc, late_gradients_overlap_the_passes_and_need_memory);
    tcase_add_test(tc, gossip_memory_holds_the_weights_of_all_neighbours);
    tcase_add_test(tc, error_memory_is_one_copy_of_the_gradients);
    tcase_add_loop_test(tc, a_stages_exchanged_elements_are_its_parameters, 0, 4);
    tcase_add_test(tc, a_gossip_step_waits_less_than_an_all_reduce_step);
    tcase_add_test(tc, the_bound_of_saved_waiting_is_exact_for_equal_passes);
    tcase_add_test(tc, a_permanently_slow_chip_delays_every_exchange);
    tcase_add_test(tc, an_adaptive_periods_step_is_the_mean_over_the_run);
    tcase_add_test(tc, the_learning_curve_equals_the_published_fit);
    tcase_add_test(tc, time_to_accuracy_is_base_steps_plus_the_exchanges_steps_times_step_time);
    tcase_add_test(tc, one_peer_graphs_over_nodes_need_the_published_steps);
    Suite *s = suite_create("sim/cost/exchange");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
