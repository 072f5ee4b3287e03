#include "sim/textbook/communication.h"
#include "sim/textbook/energy.h"
#include "sim/textbook/estimate.h"
#include "sim/textbook/failure.h"
#include "sim/textbook/memory.h"
#include "sim/textbook/pipeline.h"
#include "tests/sim/textbook/textbook_runs.h"
#include "tests/testing.h"

#include <math.h>

static const double day_s = 86400;

static const struct textbook_link link = { .latency_s = 5e-6, .bytes_per_s = 50e9 };

/* There are 14 steps. Each takes 5 us and 1e9 B / (8 x 50e9 B/s) = 2500 us, so all take 35070 us.
 */
START_TEST(a_ring_all_reduces_1_gb_over_eight_ranks_in_35_07_ms)
{
    check_within(textbook_ring_all_reduce_s(&link, 8, 1e9), 35.07e-3, 1e-12);
}
END_TEST

START_TEST(ring_all_reduce_is_reduce_scatter_and_all_gather)
{
    for (int ranks = 1; ranks <= 1024; ranks *= 2)
        for (int bytes = 1; bytes < 1000000000; bytes *= 10)
            ck_assert_double_eq(textbook_ring_all_reduce_s(&link, ranks, bytes),
                                textbook_ring_reduce_scatter_s(&link, ranks, bytes) +
                                    textbook_ring_all_gather_s(&link, ranks, bytes));
}
END_TEST

START_TEST(one_rank_communicates_nothing)
{
    ck_assert_double_eq(textbook_ring_all_reduce_s(&link, 1, 1e9), 0);
    ck_assert_double_eq(textbook_ring_all_gather_s(&link, 1, 1e9), 0);
    ck_assert_double_eq(textbook_ring_reduce_scatter_s(&link, 1, 1e9), 0);
    ck_assert_double_eq(textbook_tree_all_reduce_s(&link, 1, 1e9), 0);
    ck_assert_double_eq(textbook_parameter_server_s(&link, 1, 1, 1e9), 0);
}
END_TEST

/* Over 1024 ranks an empty message takes a ring 2046 latencies and a tree 20; a large one takes the
 * ring 2 x 1023/1024 S/B and the tree 2 S/B. */
START_TEST(a_tree_is_faster_for_small_and_a_ring_for_large_messages)
{
    check_within(textbook_ring_all_reduce_s(&link, 1024, 0), 2046 * 5e-6, 1e-12);
    check_within(textbook_tree_all_reduce_s(&link, 1024, 0), 20 * 5e-6, 1e-12);
    ck_assert_double_lt(textbook_ring_all_reduce_s(&link, 1024, 1e15),
                        textbook_tree_all_reduce_s(&link, 1024, 1e15));
}
END_TEST

/* A parameter server that is sharded over 4 of 16 ranks takes 2 x 15 x 1e9 / (4 x 50e9) = 0.15 s.
 * Unlike the time of a ring, this grows with the number of ranks. */
START_TEST(sixteen_ranks_of_which_four_serve_exchange_1_gb_in_150_ms)
{
    check_within(textbook_parameter_server_s(&link, 16, 4, 1e9), 0.15, 1e-12);
    check_within(textbook_parameter_server_s(&link, 32, 4, 1e9), 0.31, 1e-12);
}
END_TEST

START_TEST(doubling_bandwidth_and_halving_latency_halves_the_time)
{
    struct textbook_link fast = { link.latency_s / 2, link.bytes_per_s * 2 };
    check_within(textbook_ring_all_reduce_s(&link, 8, 1e6),
                 2 * textbook_ring_all_reduce_s(&fast, 8, 1e6), 1e-12);
    check_within(textbook_tree_all_reduce_s(&link, 8, 1e6),
                 2 * textbook_tree_all_reduce_s(&fast, 8, 1e6), 1e-12);
}
END_TEST

/* With 128 microbatches on 16 stages the bubble is 15 / (128 + 15) = 10.49 % of the step; with 8
 * chunks per stage it is 15 / (8 x 128 + 15) = 1.443 %. */
START_TEST(sixteen_stages_idle_10_49_percent_and_1_44_in_eight_chunks)
{
    struct textbook_pipeline plain = { .stages = 16, .chunks = 1, .microbatches = 128 };
    struct textbook_pipeline chunked = { .stages = 16, .chunks = 8, .microbatches = 128 };
    ck_assert_double_eq_tol(100 * textbook_bubble_of_total(plain), 10.49, 0.005);
    ck_assert_double_eq_tol(100 * textbook_bubble_of_total(chunked), 1.4437, 0.00005);
}
END_TEST

/* If the bubble relative to useful time is u = (p-1) / (v m), the bubble relative to the total is u
 * / (1 + u) = (p-1) / (v m + p-1). */
START_TEST(the_bubble_of_the_total_is_u_over_1_plus_u)
{
    struct textbook_pipeline pipeline = { .stages = 8, .chunks = 2, .microbatches = 12 };
    double useful = textbook_bubble_of_useful(pipeline);
    check_within(useful, 7.0 / 24, 1e-12);
    check_within(textbook_bubble_of_total(pipeline), useful / (1 + useful), 1e-12);
}
END_TEST

START_TEST(one_stage_has_no_bubble_and_no_transfers)
{
    struct textbook_pipeline pipeline = { .stages = 1, .chunks = 1, .microbatches = 8 };
    ck_assert_double_eq(textbook_bubble_of_useful(pipeline), 0);
    ck_assert_double_eq(textbook_bubble_of_total(pipeline), 0);
    ck_assert_double_eq(textbook_pipeline_low_s(pipeline, 1), 0);
    ck_assert_double_eq(textbook_pipeline_high_s(pipeline, 1), 0);
}
END_TEST

/* A discrete-event simulation of blocking 1F1B with p = 8, m = 64 has 2m(p-1)/p + 2(p-2) = 124
 * exposed messages, between the bounds 2 x 7 = 14 and 2 x (7 + 63) = 140. An interleaved schedule
 * with p = 8, v = 4 exposes 62 = 2 x 31, below the bound 2 x (31 + 4 x 63) = 566. */
START_TEST(the_bounds_on_transfers_hold_for_simulated_schedules)
{
    struct textbook_pipeline plain = { .stages = 8, .chunks = 1, .microbatches = 64 };
    struct textbook_pipeline chunked = { .stages = 8, .chunks = 4, .microbatches = 64 };
    ck_assert_double_eq(textbook_pipeline_low_s(plain, 1), 14);
    ck_assert_double_eq(textbook_pipeline_high_s(plain, 1), 140);
    ck_assert_double_eq(textbook_pipeline_low_s(chunked, 1), 62);
    ck_assert_double_eq(textbook_pipeline_high_s(chunked, 1), 566);
}
END_TEST

/* The unit is the activations of one of the model's 96 layers for one microbatch. Plain 1F1B holds
 * 96 at stage 0; interleaved with p = 8 and v = 3 it holds 96 (1 + 7/24) = 124; with only two
 * microbatches it holds at most 2 x 96/8 = 24. */
START_TEST(stage_0_holds_all_layers_and_more_when_interleaved)
{
    struct textbook_pipeline plain = { .stages = 8, .chunks = 1, .microbatches = 64 };
    struct textbook_pipeline chunked = { .stages = 8, .chunks = 3, .microbatches = 64 };
    struct textbook_pipeline few = { .stages = 8, .chunks = 1, .microbatches = 2 };
    check_within(textbook_layers_in_flight(plain, 96), 96, 1e-12);
    check_within(textbook_layers_in_flight(chunked, 96), 124, 1e-12);
    check_within(textbook_layers_in_flight(few, 96), 24, 1e-12);
}
END_TEST

/* Llama 3 had 419 failures in 54 days on 2048 nodes, i.e. 3.79 per 1000 node-days, or one in 24000
 * / (3.79 x 2048) = 3.09 h. Meta's RSC-1 has 6.5 per 1000 node-days: one in 1.80 h on 16384 GPUs,
 * and one in 0.225 h on 131072. */
START_TEST(time_between_failures_falls_with_nodes)
{
    ck_assert_double_eq_tol(textbook_mtbf_s(3.79, 2048) / 3600, 3.09, 0.005);
    ck_assert_double_eq_tol(textbook_mtbf_s(6.5, 16384 / 8) / 3600, 1.80, 0.005);
    ck_assert_double_eq_tol(textbook_mtbf_s(6.5, 131072 / 8) / 3600, 0.225, 0.0005);
}
END_TEST

/* Young's interval for checkpoints of 120 s and a mean time between failures M = 11135.08 s is t =
 * sqrt(2 x 120 x 11135.08) = 1634.75 s. With a restart of 900 s the goodput is t / (M e^(900/M)
 * (e^((t+120)/M) - 1)). */
START_TEST(llama_3_at_two_minutes_a_checkpoint_keeps_79_percent_of_its_time)
{
    struct textbook_failure failure = { 11135.08, 120, 900 };
    double interval_s = textbook_young_s(&failure);
    ck_assert_double_eq_tol(interval_s, 1634.75, 0.005);
    ck_assert_double_eq_tol(textbook_ettr_exact(&failure, interval_s), 0.7934, 0.0001);
}
END_TEST

/* On the same machine, checkpoints of 30 s and a restart of 600 s give an interval of 817 s and a
 * goodput of 0.880; the linear form gives 0.887. */
START_TEST(the_linear_form_overestimates_goodput)
{
    struct textbook_failure failure = { 11135, 30, 600 };
    double interval_s = textbook_young_s(&failure);
    ck_assert_double_eq_tol(interval_s, 817, 0.5);
    ck_assert_double_eq_tol(textbook_ettr_exact(&failure, interval_s), 0.880, 0.0005);
    ck_assert_double_eq_tol(textbook_ettr_linear(&failure, interval_s), 0.887, 0.0005);
}
END_TEST

START_TEST(youngs_interval_maximises_the_linear_form)
{
    struct textbook_failure failure = { 11135, 120, 900 };
    double best = textbook_ettr_linear(&failure, textbook_young_s(&failure));
    for (int interval_s = 60; interval_s < 11135; interval_s += 60)
        ck_assert_double_le(textbook_ettr_linear(&failure, interval_s), best);
}
END_TEST

/* Daly's interval is a series for the maximum of the exact formula. At x = sqrt(120 / 22270) =
 * 0.073 its goodput is less than 1e-6 below the maximum; that of Young's interval is further below.
 */
START_TEST(dalys_interval_is_closer_to_the_exact_optimum_than_youngs)
{
    struct textbook_failure failure = { 11135, 120, 900 };
    double best = 0;
    for (int interval_s = 60; interval_s < 11135; interval_s++)
        best = fmax(best, textbook_ettr_exact(&failure, interval_s));
    double daly = textbook_ettr_exact(&failure, textbook_daly_s(&failure));
    double young = textbook_ettr_exact(&failure, textbook_young_s(&failure));
    ck_assert_double_eq_tol(daly, best, 1e-6);
    ck_assert_double_gt(best - young, 1e-5);
}
END_TEST

START_TEST(if_a_checkpoint_takes_two_mtbfs_the_interval_is_one_mtbf)
{
    struct textbook_failure failure = { 100, 200, 0 };
    ck_assert_double_eq(textbook_daly_s(&failure), 100);
}
END_TEST

/* By Llama 3.1's model card, 39.3e6 GPU-hours x 700 W = 27.51 GWh, which emit 11,390 t at 414
 * g/kWh. */
START_TEST(llama_3_1_takes_27_51_gwh_and_emits_11390_tonnes)
{
    double energy_wh = textbook_energy_wh(39.3e6 * 3600, 700);
    check_within(energy_wh, 27.51e9, 1e-12);
    check_within(textbook_gco2(energy_wh, 414), 11390e6, 1e-3);
}
END_TEST

/* There are 8 stages of 12 layers each, and 16 microbatches. In the naive schedule each stage idles
 * for 7 times its work; with 1F1B and GPipe for 7/16 of its work; with ZB-H1 for a third of that;
 * with ZB-H2 never. 1F1B, GPipe, the naive schedule, ZB-H1 and ZB-H2 hold 8, 16, 1, 8 and 2 x 8 - 1
 * microbatches of 12 layers. The 2 x 7 transfers of one microbatch are exposed; in the naive
 * schedule those of all 16 microbatches are, 224. */
START_TEST(each_schedule_has_its_bubble_layers_in_flight_and_transfers)
{
    static const struct {
        enum textbook_schedule schedule;
        double bubble, layers, crossings;
    } table[] = {
        { TEXTBOOK_1F1B, 7.0 / 16, 96, 14 }, { TEXTBOOK_GPIPE, 7.0 / 16, 192, 14 },
        { TEXTBOOK_NAIVE, 7, 12, 224 },      { TEXTBOOK_ZB_H1, 7.0 / 48, 96, 14 },
        { TEXTBOOK_ZB_H2, 0, 180, 14 },
    };
    for (size_t i = 0; i < LENGTH(table); i++) {
        struct textbook_pipeline pipeline = { 8, 1, 16, table[i].schedule };
        double total = table[i].bubble / (1 + table[i].bubble);
        ck_assert_double_eq_tol(textbook_bubble_of_useful(pipeline), table[i].bubble, 1e-12);
        ck_assert_double_eq_tol(textbook_bubble_of_total(pipeline), total, 1e-12);
        check_within(textbook_layers_in_flight(pipeline, 96), table[i].layers, 1e-12);
        check_within(textbook_pipeline_low_s(pipeline, 1), table[i].crossings, 1e-12);
    }
}
END_TEST

/* This small model has numbers that divide well: l = 8 layers of width h = 100 with a = 10 heads, a
 * vocabulary of v = 1000 and sequences of s = 10 tokens give 12 x 8 x 100^2 + 2 x 1000 x 100 =
 * 1.16e6 parameters. They run on t = p = d = 2 tensor, pipeline and data ranks with 4 microbatches
 * of one sequence. */
static const struct model small = { .layers = 8, .hidden = 100, .heads = 10, .vocab = 1000 };

static struct textbook_setup small_setup(void)
{
    const struct textbook_link slow = { .latency_s = 1e-3, .bytes_per_s = 1e6 };
    return (struct textbook_setup){
        .model = &small,
        .tensor = 2,
        .pipeline = 2,
        .chunks = 1,
        .data = 2,
        .microbatch = 1,
        .batch = 8,
        .seq = 10,
        .recipe = *recipe_named("bf16"),
        .value_bytes = 2,
        .reduce_bytes = 4,
        .keep = TEXTBOOK_KEEP_ALL,
        .peak_flops_per_s = 1e6,
        .utilization = 0.5,
        .tensor_link = slow,
        .pipeline_link = slow,
        .data_link = slow,
    };
}

START_TEST(parts_of_a_small_step_equal_hand_calculations)
{
    struct textbook_setup setup = small_setup();
    struct textbook_estimate got = textbook_estimate(&setup);
    ck_assert_double_eq(got.parameters, 1.16e6);
    ck_assert_double_eq(got.tokens, 80);
    ck_assert_double_eq(got.flops, 556.8e6); /* FLOPs of a step: 6 x 80 x 1.16e6 */
    ck_assert_double_eq(got.microbatches, 4);
    check_within(got.compute_s, 139.2, 1e-12); /* seconds of compute: 556.8e6 / (8 x 1e6 x 0.5) */
    check_within(got.bubble_s, 34.8, 1e-12);   /* seconds of the bubble: 139.2 x 1/4 */
    /* tensor all-reduces: 4 microbatches x 4 layers x 4 x 2 (1 ms + 2000 B / 2 / 1e6 B/s = 1 ms) */
    check_within(got.tensor_comm_s, 0.256, 1e-12);
    /* all-reduce of gradients, 0.29e6 parameters x 4 B = 1.16e6 B: 2 (1 ms + 0.58 s) */
    check_within(got.data_comm_s, 1.162, 1e-12);
    /* messages between stages, lower bound: 2 x 1 x (1 ms + 2 ms) */
    check_within(got.pipeline_comm_low_s, 0.006, 1e-12);
    /* messages between stages, upper bound: 2 x (1 + 3) x 3 ms */
    check_within(got.pipeline_comm_high_s, 0.024, 1e-12);
    check_within(got.step_s, 175.424, 1e-12);
    check_within(got.step_high_s, 175.442, 1e-12);
    check_within(got.tokens_per_s, 80 / 175.424, 1e-12);
}
END_TEST

START_TEST(memory_of_a_small_rank_equals_hand_calculations)
{
    struct textbook_setup setup = small_setup();
    struct textbook_estimate got = textbook_estimate(&setup);
    /* bytes of weights, gradients and optimizer: 0.29e6 x 2, 4 and 12 */
    ck_assert_double_eq(got.weights_bytes, 0.58e6);
    ck_assert_double_eq(got.gradients_bytes, 1.16e6);
    ck_assert_double_eq(got.optimizer_bytes, 3.48e6);
    /* activations, with s b h = 1000 and a s / h = 1: 8 layers x 1000 x (10 + (24 + 5)/2) */
    ck_assert_double_eq(got.activations_bytes, 196e3);
    ck_assert_double_eq(got.working_set_bytes, 0);
    ck_assert_double_eq(got.memory_bytes, 5.416e6);
}
END_TEST

/* Full recompute takes 8 instead of 6 FLOPs per token and parameter (4/3), and six all-reduces per
 * layer instead of four. Layers keep 2 bytes per element of the hidden state, and one layer at a
 * time is recomputed. */
START_TEST(full_recompute_trades_a_third_more_time_for_memory)
{
    struct textbook_setup setup = small_setup();
    setup.recomputed = 1;
    struct textbook_estimate got = textbook_estimate(&setup);
    check_within(got.compute_s, 139.2 * 4 / 3, 1e-12);
    check_within(got.tensor_comm_s, 0.384, 1e-12);
    ck_assert_double_eq(got.activations_bytes, 16e3);
    ck_assert_double_eq(got.working_set_bytes, 24.5e3);
}
END_TEST

/* A layer keeps 10 + (24 + 5)/2 = 24.5 kB per microbatch, and its input takes 2 kB. With a
 * checkpoint for every 4 of 8 layers, 2 inputs are kept and 4 layers at once are recomputed; a
 * checkpoint per layer is the case of full recompute. If half of the layers are recomputed, 4
 * layers keep only their inputs and 4 keep all activations, one layer at a time is recomputed, and
 * a step takes 7 FLOPs per token and parameter and five all-reduces per layer. */
START_TEST(recompute_keeps_an_input_every_k_layers_or_of_a_share_of_them)
{
    static const struct {
        double recomputed;
        int interval;
        double flops_per_weight, all_reduces, activations_bytes, working_set_bytes;
    } table[] = {
        { 1, 4, 8, 6, 4e3, 98e3 },
        { 1, 1, 8, 6, 16e3, 24.5e3 },
        { 0.5, 1, 7, 5, 4 * 24.5e3 + 8e3, 24.5e3 },
    };
    for (size_t i = 0; i < LENGTH(table); i++) {
        struct textbook_setup setup = small_setup();
        setup.recomputed = table[i].recomputed;
        setup.interval = table[i].interval;
        struct textbook_estimate got = textbook_estimate(&setup);
        check_within(got.flops, table[i].flops_per_weight * 80 * 1.16e6, 1e-12);
        check_within(got.tensor_comm_s, table[i].all_reduces * 0.064, 1e-12);
        check_within(got.activations_bytes, table[i].activations_bytes, 1e-12);
        check_within(got.working_set_bytes, table[i].working_set_bytes, 1e-12);
    }
}
END_TEST

/* In fp32 a layer keeps, per element of the hidden state [s b h], 16 values (64 bytes) and 2 bytes
 * of masks, and, per element of the attention scores, 2 values (8 bytes) and 1 byte of mask. Here
 * both tensors have equally many elements. On two tensor ranks that is 18 + (48 + 9)/2 = 46.5 bytes
 * per element. A message between stages has 4 kB, and an all-reduce of it takes 2 (1 ms + 2 ms). */
START_TEST(four_byte_values_take_more_memory_and_time)
{
    struct textbook_setup setup = small_setup();
    setup.value_bytes = 4;
    struct textbook_estimate got = textbook_estimate(&setup);
    ck_assert_double_eq(got.activations_bytes, 8 * 46.5e3);
    check_within(got.tensor_comm_s, 4 * 4 * 4 * 6e-3, 1e-12);
    check_within(got.pipeline_comm_low_s, 2 * 5e-3, 1e-12);
}
END_TEST

/* Eight ranks, four per node, exchange 0.29e6 parameters of 4 B, i.e. 1.16e6 B. A rank has 1e7 B/s
 * within its node and 1e6 B/s out of it. In a ring only one rank of a node sends out, so it gets
 * the node's 4e6 B/s, and the ring takes 14 (1 ms + 0.145 s / 4). ps:2 takes 2 x 7 x 0.29 / 2 s,
 * tree takes 6 ms + 2 x 0.29 s, and gossip:ring takes 2 (1 ms + 1.16 s), as all ranks may send to
 * another node. local:4 takes a quarter of the ring's time. hierarchical has a reduce-scatter and
 * an all-gather in the node, of 3 (1 us + 0.029 s) each; then four pairs of ranks at once
 * all-reduce a quarter each, in 2 (1 ms + 0.145 s). Four ranks of one node use only its link: a
 * ring takes 6 (1 us + 0.029 s), and gossip 2 (1 us + 0.116 s). */
START_TEST(each_exchange_takes_the_time_of_its_formula)
{
    static const struct {
        int ranks;
        const char *exchange;
        double seconds;
    } table[] = {
        { 8, "ring", 14 * 0.03725 },
        { 8, "ps:2", 2.03 },
        { 8, "tree", 0.586 },
        { 8, "gossip:ring", 2.322 },
        { 8, "local:4", 14 * 0.03725 / 4 },
        { 8, "hierarchical", 6 * 0.029001 + 2 * 0.146 },
        { 8, "pga:4:graph=ring", (14 * 0.03725 + 3 * 2.322) / 4 },
        { 4, "ring", 6 * 0.029001 },
        { 4, "gossip:ring", 2 * 0.116001 },
    };
    for (size_t i = 0; i < LENGTH(table); i++) {
        struct textbook_setup setup = small_setup();
        struct err err = { 0 };
        setup.data = table[i].ranks;
        setup.wires = (struct textbook_wires){ { 1e-6, 1e7 }, setup.data_link, { setup.data, 4 } };
        ck_assert(exchange_read(table[i].exchange, &setup.exchange, &err));
        check_within(textbook_estimate(&setup).data_comm_s, table[i].seconds, 1e-12);
    }
}
END_TEST

/* Two data ranks have 1.16e6 B of gradients and 0.58e6 B of weights. Scattering or gathering takes
 * 1 ms plus half of the bytes at 1e6 B/s: 0.581 s for gradients and 0.291 s for weights. */
START_TEST(zero_scatters_gradients_and_gathers_weights)
{
    struct textbook_setup setup = small_setup();
    static const double expected_s[] = { 1.162, 0.872, 0.872, 1.163 };
    for (setup.zero = 0; setup.zero <= 3; setup.zero++)
        check_within(textbook_estimate(&setup).data_comm_s, expected_s[setup.zero], 1e-12);
}
END_TEST

/* ZeRO 3 communicates 1.5 times as much as plain data parallelism if everything has one precision.
 * Rajbhandari et al. 2020, section 7. */
START_TEST(in_one_precision_zero_3_communicates_1_5_times_as_much)
{
    struct textbook_setup setup = small_setup();
    setup.recipe = *recipe_named("deepspeed");
    setup.reduce_bytes = 2;
    double plain_s = textbook_estimate(&setup).data_comm_s;
    setup.zero = 2;
    check_within(textbook_estimate(&setup).data_comm_s, plain_s, 1e-12);
    setup.zero = 3;
    check_within(textbook_estimate(&setup).data_comm_s, 1.5 * plain_s, 1e-12);
}
END_TEST

START_TEST(a_single_gpu_only_computes)
{
    struct textbook_setup setup = small_setup();
    setup.tensor = setup.pipeline = setup.data = 1;
    struct textbook_estimate got = textbook_estimate(&setup);
    ck_assert_double_eq(got.bubble_s, 0);
    ck_assert_double_eq(got.tensor_comm_s, 0);
    ck_assert_double_eq(got.data_comm_s, 0);
    ck_assert_double_eq(got.pipeline_comm_low_s, 0);
    ck_assert_double_eq(got.pipeline_comm_high_s, 0);
    ck_assert_double_eq(got.step_s, got.compute_s);
}
END_TEST

/* Steps of 1536 sequences over 300e9 tokens give the 33.91 days of test_textbook_work.c, but 0.1 %
 * more, because here the model has 175.18e9 instead of 175e9 parameters. */
START_TEST(steps_of_gpt3_add_up_to_34_days)
{
    struct textbook_setup setup = small_setup();
    setup.model = &gpt3;
    setup.data = 256; /* 2 x 2 x 256 = 1024 GPUs */
    setup.batch = 1536;
    setup.seq = 2048;
    setup.recomputed = 1;
    setup.peak_flops_per_s = a100_flops_per_s;
    setup.utilization = 140e12 / a100_flops_per_s;
    struct textbook_estimate got = textbook_estimate(&setup);
    check_within(got.compute_s * (300e9 / got.tokens) / day_s, 33.91, 2e-3);
}
END_TEST

/* Every member of struct textbook_estimate is a double and has a row in the table of estimates, so
 * `explain` prints all of them. */
START_TEST(every_field_of_an_estimate_has_a_name_and_a_formula)
{
    ck_assert_uint_eq(num_textbook_estimate_fields * sizeof(double),
                      sizeof(struct textbook_estimate));
    for (size_t i = 0; i < num_textbook_estimate_fields; i++) {
        ck_assert_uint_eq(textbook_estimate_fields[i].offset, i * sizeof(double));
        ck_assert_str_ne(textbook_estimate_fields[i].doc, "");
    }
}
END_TEST

static TCase *communication_tests(void)
{
    TCase *tc = tcase_create("communication");
    tcase_add_test(tc, a_ring_all_reduces_1_gb_over_eight_ranks_in_35_07_ms);
    tcase_add_test(tc, ring_all_reduce_is_reduce_scatter_and_all_gather);
    tcase_add_test(tc, one_rank_communicates_nothing);
    tcase_add_test(tc, a_tree_is_faster_for_small_and_a_ring_for_large_messages);
    tcase_add_test(tc, sixteen_ranks_of_which_four_serve_exchange_1_gb_in_150_ms);
    tcase_add_test(tc, doubling_bandwidth_and_halving_latency_halves_the_time);
    return tc;
}

static TCase *pipeline_tests(void)
{
    TCase *tc = tcase_create("pipeline");
    tcase_add_test(tc, sixteen_stages_idle_10_49_percent_and_1_44_in_eight_chunks);
    tcase_add_test(tc, the_bubble_of_the_total_is_u_over_1_plus_u);
    tcase_add_test(tc, one_stage_has_no_bubble_and_no_transfers);
    tcase_add_test(tc, the_bounds_on_transfers_hold_for_simulated_schedules);
    tcase_add_test(tc, stage_0_holds_all_layers_and_more_when_interleaved);
    tcase_add_test(tc, each_schedule_has_its_bubble_layers_in_flight_and_transfers);
    return tc;
}

static TCase *failure_tests(void)
{
    TCase *tc = tcase_create("failure");
    tcase_add_test(tc, time_between_failures_falls_with_nodes);
    tcase_add_test(tc, llama_3_at_two_minutes_a_checkpoint_keeps_79_percent_of_its_time);
    tcase_add_test(tc, the_linear_form_overestimates_goodput);
    tcase_add_test(tc, youngs_interval_maximises_the_linear_form);
    tcase_add_test(tc, dalys_interval_is_closer_to_the_exact_optimum_than_youngs);
    tcase_add_test(tc, if_a_checkpoint_takes_two_mtbfs_the_interval_is_one_mtbf);
    tcase_add_test(tc, llama_3_1_takes_27_51_gwh_and_emits_11390_tonnes);
    return tc;
}

static TCase *estimate_tests(void)
{
    TCase *tc = tcase_create("estimate");
    tcase_add_test(tc, parts_of_a_small_step_equal_hand_calculations);
    tcase_add_test(tc, memory_of_a_small_rank_equals_hand_calculations);
    tcase_add_test(tc, full_recompute_trades_a_third_more_time_for_memory);
    tcase_add_test(tc, recompute_keeps_an_input_every_k_layers_or_of_a_share_of_them);
    tcase_add_test(tc, four_byte_values_take_more_memory_and_time);
    tcase_add_test(tc, each_exchange_takes_the_time_of_its_formula);
    tcase_add_test(tc, zero_scatters_gradients_and_gathers_weights);
    tcase_add_test(tc, in_one_precision_zero_3_communicates_1_5_times_as_much);
    tcase_add_test(tc, a_single_gpu_only_computes);
    tcase_add_test(tc, steps_of_gpt3_add_up_to_34_days);
    tcase_add_test(tc, every_field_of_an_estimate_has_a_name_and_a_formula);
    return tc;
}

static Suite *suite(void)
{
    Suite *s = suite_create("sim/textbook");
    suite_add_tcase(s, communication_tests());
    suite_add_tcase(s, pipeline_tests());
    suite_add_tcase(s, failure_tests());
    suite_add_tcase(s, estimate_tests());
    return s;
}

TEST_MAIN(suite)
