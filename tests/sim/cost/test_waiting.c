#include "base/random.h"
#include "sim/cost/straggler.h"
#include "sim/cost/waiting.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

enum { MOST_RANKS = 256 };

static double normal(struct random *rng)
{
    double radius = sqrt(-2 * log(1 - random_unit(rng)));
    return radius * cos(6.283185307179586 * random_unit(rng));
}

static double mean(const double *at, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += at[i];
    return sum / count;
}

static void wait_for_all(double *end, int count)
{
    double last = end[0];
    for (int i = 1; i < count; i++)
        last = fmax(last, end[i]);
    for (int i = 0; i < count; i++)
        end[i] = last;
}

static void wait_for_neighbours(enum mixing_graph graph, int step, double *end, int count)
{
    double next[MOST_RANKS];
    for (int rank = 0; rank < count; rank++) {
        struct mixing_peers peers = mixing_peers(graph, count, rank, step);
        next[rank] = end[rank];
        for (int i = 0; i < peers.count; i++)
            next[rank] = fmax(next[rank], fmax(end[peers.hears[i]], end[peers.tells[i]]));
    }
    memcpy(end, next, sizeof *end * (size_t)count);
}

/* Simulates steps in which each rank waits for its neighbours in the graph. Returns the mean growth
 * of the ranks' clocks per step, without the first tenth of the steps. If `period` is positive,
 * every rank waits for all others in each `period`-th step. Without a graph ranks wait only then.
 */
static double simulated(int graph, int count, int period, int steps)
{
    struct random rng = random_new(7, (uint64_t)(graph * 1000 + count));
    double end[MOST_RANKS] = { 0 }, begun = 0;
    int first = steps / 10;
    for (int step = 0; step < steps; step++) {
        for (int rank = 0; rank < count; rank++)
            end[rank] += normal(&rng);
        if (period > 0 && step % period == period - 1)
            wait_for_all(end, count);
        else if (graph < NUM_MIXING_GRAPHS)
            wait_for_neighbours((enum mixing_graph)graph, step, end, count);
        if (step == first - 1)
            begun = mean(end, count);
    }
    return (mean(end, count) - begun) / (steps - first);
}

static const int counts[] = { 4, 8, 16, 64, 256 };

/* With so few draws the simulation itself varies by 1 %. */
START_TEST(waiting_of_gossip_agrees_with_a_simulation)
{
    for (int i = 0; i < LENGTH(counts); i++) {
        double want = simulated(_i, counts[i], 0, TURNS(160000) / counts[i] / 4 + 400);
        double got = gossip_wait((enum mixing_graph)_i, counts[i]);
        ck_assert_msg(fabs(got / want - 1) < 0.13,
                      "%s of %d ranks: the formula gives %.3f, the simulation %.3f",
                      mixing_graph_words[_i], counts[i], got, want);
    }
}
END_TEST

static struct exchange parsed(const char *text)
{
    struct exchange exchange;
    struct err err = { 0 };
    ck_assert_msg(exchange_read(text, &exchange, &err), "%s", err.msg);
    return exchange;
}

static double wait_of(const char *text, int num_ranks, double averaging)
{
    struct exchange exchange = parsed(text);
    return exchange_wait(&exchange, num_ranks, averaging);
}

/* For Local SGD the formula is exact, except for Blom's approximation of the expected maximum. */
START_TEST(waiting_of_local_sgd_agrees_with_a_simulation)
{
    static const struct {
        const char *text;
        int graph, period;
        double tolerance;
    } cases[] = {
        { "local:4", NUM_MIXING_GRAPHS, 4, 0.03 },
        { "local:16", NUM_MIXING_GRAPHS, 16, 0.03 },
        { "pga:2", MIXING_ONE_PEER, 2, 0.12 },
        { "pga:8", MIXING_ONE_PEER, 8, 0.12 },
        { "pga:8:graph=ring", MIXING_RING, 8, 0.12 },
        { "pga:8:graph=exp", MIXING_EXPONENTIAL, 8, 0.12 },
    };
    for (int i = 0; i < LENGTH(cases); i++) {
        double want = simulated(cases[i].graph, 32, cases[i].period, TURNS(4000) / 40 * 40 + 800);
        double got = wait_of(cases[i].text, 32, 1.0 / cases[i].period);
        ck_assert_msg(fabs(got / want - 1) < cases[i].tolerance,
                      "%s: the formula gives %.3f, the simulation %.3f", cases[i].text, got, want);
    }
}
END_TEST

START_TEST(exact_sums_wait_for_the_slowest_rank)
{
    static const char *const words[] = { "allreduce", "ring", "ps:1", "topk:0.01", "local:1" };
    for (int i = 0; i < LENGTH(words); i++) {
        struct exchange exchange = parsed(words[i]);
        ck_assert_double_eq(exchange_wait(&exchange, 64, 1), expected_maximum(64));
        ck_assert_double_eq(exchange_waits_for(&exchange, 64, 1), 64);
    }
}
END_TEST

/* The waiting increases with the number of neighbours, the number of ranks and the frequency of
 * averages. It never exceeds the waiting for all ranks. */
START_TEST(waiting_increases_with_neighbours_ranks_and_averages)
{
    for (int n = 8; n <= 1024; n *= 2) {
        double one = wait_of("gossip:one-peer", n, 0), ring = wait_of("gossip:ring", n, 0);
        double exponential = wait_of("gossip:exp", n, 0), all = expected_maximum(n);
        ck_assert(0 < fmin(one, ring) && fmax(one, ring) < exponential && exponential < all);
        ck_assert_double_le(ring, wait_of("gossip:ring", 2 * n, 0));
        ck_assert_double_lt(wait_of("local:16", n, 1.0 / 16), wait_of("local:4", n, 1.0 / 4));
        double rare = wait_of("pga:16", n, 1.0 / 16), often = wait_of("pga:2", n, 0.5);
        ck_assert(one < rare && rare < often && often < all);
        double groups = wait_of("gossip:one-peer:group=4", n, 0);
        ck_assert(groups > expected_maximum(4) && groups <= all);
    }
}
END_TEST

START_TEST(the_equivalent_number_of_ranks_waits_equally_long)
{
    for (double n = 1; n < 1e5; n *= 3)
        ck_assert_double_eq_tol(maximum_count(expected_maximum(n)), n, 1e-6 * n);
    struct exchange ring = parsed("gossip:ring");
    double count = exchange_waits_for(&ring, 1024, 0);
    ck_assert(count > 3 && count < 8); /* more than the 3 of a rank and its two neighbours,
                                        * because the neighbours have waited for others */
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("waiting");
    tcase_add_loop_test(tc, waiting_of_gossip_agrees_with_a_simulation, 0, NUM_MIXING_GRAPHS);
    tcase_add_test(tc, waiting_of_local_sgd_agrees_with_a_simulation);
    tcase_add_test(tc, exact_sums_wait_for_the_slowest_rank);
    tcase_add_test(tc, waiting_increases_with_neighbours_ranks_and_averages);
    tcase_add_test(tc, the_equivalent_number_of_ranks_waits_equally_long);
    Suite *s = suite_create("sim/cost/waiting");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
