#include "tests/testing.h"

#include "exec/comm/comm.h"
#include "tests/draw.h"
#include "tests/exec/exchange/exchange_case.h"
#include "tests/exec/rank_job.h"

#include <math.h>

static const struct comm_api *const apis[] = { &comm_local, &comm_tcp };

static bool average_step(struct exchange_side *side, int step)
{
    exchanger_begin_step(side->exchanger, step);
    if (exchanger_averages(side->exchanger)) {
        exchanger_average(side->exchanger, side->weights, side->averaged);
        device_host.copy(side->stream, side->weights, side->averaged,
                         sizeof(float) * side->elements);
    }
    exchanger_end_step(side->exchanger, 1);
    return exchange_side_sync(side);
}

static double deviation(struct exchange_side *side, double mean)
{
    double off = (double)side->weights[0] - mean;
    return exchange_side_total(side, off * off);
}

/* One gossip step keeps the mean of the ranks' values, and multiplies their distance from the mean
 * by at most beta, the second singular value of the mixing matrix. */
static bool comes_closer(struct exchange_side *side, const struct exchange_case *of)
{
    double beta = mixing_second_singular((enum mixing_graph)side->exchange.graph, of->size);
    for (size_t i = 0; i < ALL_ELEMENTS; i++)
        side->weights[i] = exchange_case_value(of, side->on.rank, 0, 0);
    double mean = exchange_side_total(side, (double)side->weights[0]) / of->size;
    double before = deviation(side, mean);
    bool ok = average_step(side, 0);
    double after = deviation(side, mean);
    double moved = exchange_side_total(side, (double)side->weights[0]) / of->size - mean;
    return ok && after <= beta * beta * before + 1e-9 && fabs(moved) < 1e-5 &&
           side->weights[0] == side->weights[ALL_ELEMENTS - 1];
}

START_TEST(a_gossip_step_shrinks_disagreement_by_the_second_singular_value)
{
    static const char *const graphs[] = { "gossip:ring", "gossip:grid", "gossip:exp" };
    uint64_t seed = told_seed();
    for (int i = 0; i < LENGTH(graphs); i++)
        exchange_case_run(
            apis[_i],
            (struct exchange_case){
                .word = graphs[i], .size = 6, .per_node = 1, .check = comes_closer, .seed = seed });
}
END_TEST

/* Returns a value whose sums are rounded, so that another order of summation would give other bits.
 */
static float fraction(const struct exchange_case *of, int rank, size_t i)
{
    return exchange_case_value(of, rank, 0, i) * 0.37F;
}

static bool adds_in_order(struct exchange_side *side, const struct exchange_case *of)
{
    struct mixing_peers peers =
        mixing_peers((enum mixing_graph)side->exchange.graph, of->size, side->on.rank, 0);
    for (size_t i = 0; i < ALL_ELEMENTS; i++)
        side->weights[i] = fraction(of, side->on.rank, i);
    bool ok = average_step(side, 0);
    for (size_t i = 0; i < ALL_ELEMENTS; i++) {
        float sum = fraction(of, side->on.rank, i);
        for (int j = 0; j < peers.count; j++)
            sum += fraction(of, peers.hears[j], i);
        ok = ok && side->weights[i] == (float)peers.weight * sum;
    }
    return ok;
}

START_TEST(neighbours_are_added_in_the_order_of_the_graph)
{
    static const char *const graphs[] = { "gossip:ring", "gossip:grid", "gossip:exp" };
    uint64_t seed = told_seed();
    for (int i = 0; i < LENGTH(graphs); i++)
        exchange_case_run(apis[_i], (struct exchange_case){ .word = graphs[i],
                                                            .size = 8,
                                                            .per_node = 1,
                                                            .check = adds_in_order,
                                                            .seed = seed });
}
END_TEST

static double memory_of(const char *word)
{
    struct exchange exchange;
    struct err err = { 0 };
    struct exchange_load load = { case_tensors, NUM_TENSORS, sizeof(float) };
    ck_assert_msg(exchange_read(word, &exchange, &err), "%s", err.msg);
    return exchanger_memory_bytes(&exchange, &load, &(struct exchange_ranks){ 8, 1 });
}

/* In a ring a rank has two neighbours; in the exponential graph it has neighbours at distances 1, 2
 * and 4. With group=N, N ranks act as one, and each of them averages a part of the weights. A rank
 * without neighbours needs no buffer, because everything is summed in place. */
START_TEST(buffers_hold_the_messages_of_all_neighbours)
{
    const double copy = ALL_ELEMENTS * sizeof(float);
    ck_assert_double_eq(memory_of("gossip:one-peer"), copy);
    ck_assert_double_eq(memory_of("gossip:ring"), 2 * copy);
    ck_assert_double_eq(memory_of("gossip:exp"), 3 * copy);
    ck_assert_double_eq(memory_of("pga:4:graph=exp"), 3 * copy);
    ck_assert_double_eq(memory_of("gossip:ring:group=2"), 2 * copy / 2);
    ck_assert_double_eq(memory_of("local:4"), 0);
}
END_TEST

/* Each of 8 ranks receives all ranks' gradients of an eighth of the elements. Together these are as
 * large as one copy of the gradients. Krum also keeps the 8 x 8 distances between ranks and 8
 * weights, in fp64; a median needs neither. */
START_TEST(a_robust_rule_keeps_all_gradients_and_its_distances)
{
    const double copy = ALL_ELEMENTS * sizeof(float);
    ck_assert_double_eq(memory_of("median:1"), copy);
    ck_assert_double_eq(memory_of("krum:1"), copy + (8 * 8 + 8) * sizeof(double));
}
END_TEST

static bool averages_exactly(struct exchange_side *side, const struct exchange_case *of)
{
    int steps = mixing_cycle(MIXING_ONE_PEER, of->size);
    bool ok = true;
    exchange_case_fill(side, of, 0, side->weights);
    for (int step = 0; step < steps && ok; step++)
        ok = average_step(side, step);
    for (size_t i = 0; i < ALL_ELEMENTS; i++)
        ok = ok && side->weights[i] == exchange_case_sum(of, 0, i) / (float)of->size;
    return ok;
}

/* Values are whole numbers and halves, so the result is exact. */
START_TEST(one_peer_averages_exactly_after_log2_n_steps)
{
    for (int size = 2; size <= MOST_JOB_RANKS; size *= 2)
        exchange_case_run(apis[_i], (struct exchange_case){ .word = "gossip:one-peer",
                                                            .size = size,
                                                            .per_node = 1,
                                                            .check = averages_exactly,
                                                            .seed = 3 });
}
END_TEST

/* The ranks of a group that acts as one rank hold equal weights; each of them averages one part of
 * the weights with other groups. */
static bool averages_groups(struct exchange_side *side, const struct exchange_case *of)
{
    int first = side->on.rank / 2 * 2;
    for (size_t i = 0; i < ALL_ELEMENTS; i++)
        side->weights[i] = exchange_case_value(of, first, 0, i);
    bool ok = average_step(side, 0);
    for (size_t i = 0; i < ALL_ELEMENTS; i++)
        ok = ok && side->weights[i] ==
                       (exchange_case_value(of, 0, 0, i) + exchange_case_value(of, 2, 0, i)) / 2;
    return ok && exchanger_num_summed(side->exchanger) == 2;
}

START_TEST(ranks_that_act_as_one_average_with_other_groups)
{
    exchange_case_run(apis[_i], (struct exchange_case){ .word = "gossip:ring:group=2",
                                                        .size = 4,
                                                        .per_node = 1,
                                                        .check = averages_groups });
}
END_TEST

/* With period 3 all ranks have the same value after steps 2, 5, 8 and so on, counted from 0. */
static bool averages_every_third(struct exchange_side *side, const struct exchange_case *of)
{
    bool ok = true;
    for (int step = 0; step < 9 && ok; step++) {
        side->weights[0] = (float)side->on.rank;
        ok = average_step(side, step);
        double mean = (of->size - 1) / 2.0;
        ok = ok && (deviation(side, mean) < 1e-9) == (step % 3 == 2);
    }
    return ok;
}

START_TEST(local_sgd_averages_at_the_end_of_each_period)
{
    exchange_case_run(&comm_local, (struct exchange_case){ .word = "local:3",
                                                           .size = 4,
                                                           .per_node = 1,
                                                           .check = averages_every_third });
}
END_TEST

/* The period is 2 steps at first. At the end of step 1 the loss is half that of step 0, so the
 * period becomes 4. The loss is needed in the first step and at the end of each period. */
static bool waits_longer(struct exchange_side *side, const struct exchange_case *of)
{
    bool ok = true;
    for (int step = 0; step < 10 && ok; step++) {
        bool ends_period = step == 1 || step == 5 || step == 9;
        side->weights[0] = (float)side->on.rank;
        exchanger_begin_step(side->exchanger, step);
        exchanger_average(side->exchanger, side->weights, side->averaged);
        ok = exchange_side_sync(side);
        side->weights[0] = side->averaged[0];
        double apart = deviation(side, (of->size - 1) / 2.0);
        ok = ok && exchanger_wants_loss(side->exchanger) == (step == 0 || ends_period);
        exchanger_end_step(side->exchanger, step == 0 ? 8 : 4);
        ok = ok && (apart < 1e-9) == ends_period;
    }
    return ok;
}

START_TEST(an_adaptive_period_grows_when_the_loss_falls)
{
    exchange_case_run(&comm_local, (struct exchange_case){ .word = "aga:2:graph=ring",
                                                           .size = 5,
                                                           .per_node = 1,
                                                           .check = waits_longer });
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("averages");
    tcase_set_tags(tc, THREADS);
    tcase_add_loop_test(tc, a_gossip_step_shrinks_disagreement_by_the_second_singular_value, 0,
                        LENGTH(apis));
    tcase_add_loop_test(tc, neighbours_are_added_in_the_order_of_the_graph, 0, LENGTH(apis));
    tcase_add_test(tc, buffers_hold_the_messages_of_all_neighbours);
    tcase_add_test(tc, a_robust_rule_keeps_all_gradients_and_its_distances);
    tcase_add_loop_test(tc, one_peer_averages_exactly_after_log2_n_steps, 0, LENGTH(apis));
    tcase_add_loop_test(tc, ranks_that_act_as_one_average_with_other_groups, 0, LENGTH(apis));
    tcase_add_test(tc, local_sgd_averages_at_the_end_of_each_period);
    tcase_add_test(tc, an_adaptive_period_grows_when_the_loss_falls);
    Suite *s = suite_create("exec/exchange: averages");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
