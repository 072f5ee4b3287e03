#include "sim/campaign/convergence.h"
#include "tests/testing.h"

#include <math.h>

static const struct exchange_tensor tensor = { 1000, 1000, 1 };
static const struct exchange_load load = { &tensor, 1, 4 };
static const struct convergence plain = { .steps = 1000, .mixing_scale = 1, .memory_scale = 1 };

static struct exchange parsed(const char *text)
{
    struct exchange exchange;
    struct err err = { 0 };
    ck_assert_msg(exchange_read(text, &exchange, &err), "%s", err.msg);
    return exchange;
}

static double transient(const char *text, int num_ranks)
{
    struct exchange exchange = parsed(text);
    return convergence_transient_steps(&plain, &exchange, &load, num_ranks);
}

static double steps(const char *text, int num_ranks)
{
    struct exchange exchange = parsed(text);
    return convergence_steps(&plain, &exchange, &load, num_ranks);
}

START_TEST(more_ranks_need_fewer_steps_in_proportion)
{
    ck_assert_double_eq(convergence_steps_to(10, 0.1, 4), 2500);
    ck_assert_double_eq(convergence_steps_to(10, 0.1, 8), 1250);
}
END_TEST

START_TEST(what_changes_nothing_needs_the_steps_of_all_reduce)
{
    static const char *const exact[] = { "allreduce", "ring",  "tree",   "hierarchical",     "ps:2",
                                         "local:1",   "pga:1", "topk:1", "topk:1:memory=off" };
    for (int i = 0; i < COUNT(exact); i++)
        ck_assert_double_eq(steps(exact[i], 16), 1000);
}
END_TEST

/* The abstract of Chen et al. 2021: beta^4 n^3 / (1-beta)^4 of gossip, n^3 H^4 of Local SGD, and
 * between the two with both. */
START_TEST(transients_are_those_of_the_theorems)
{
    double beta = mixing_second_singular(MIXING_RING, 16);
    ck_assert_double_eq_tol(transient("gossip:ring", 16), pow(16, 3) * pow(beta / (1 - beta), 4),
                            1e-3);
    ck_assert_double_eq(transient("local:8", 16), pow(16, 3) * pow(8, 4));
    ck_assert_double_lt(transient("pga:4:graph=ring", 64), transient("gossip:ring", 64));
    ck_assert_double_lt(transient("pga:4:graph=ring", 64), transient("local:4", 64));
    ck_assert_double_le(transient("pga:4:graph=ring", 64),
                        pow(64, 3) * pow(mixing_second_singular(MIXING_RING, 64), 4) * pow(4, 4));
}
END_TEST

/* 32 nodes: beta is 2/3, so (2/3)^4 3^4 = 16 times 32^3. */
START_TEST(the_published_scale_is_that_of_imagenet_on_32_nodes)
{
    struct convergence published = convergence_published(1e5);
    struct exchange one = parsed("gossip:one-peer");
    ck_assert_double_eq_tol(transient("gossip:one-peer", 32), 524288, 1e-3);
    ck_assert_double_eq_tol(convergence_transient_steps(&published, &one, &load, 32), 14074, 1e-3);
}
END_TEST

START_TEST(denser_graphs_and_more_ranks_order_transients)
{
    ck_assert_double_lt(transient("gossip:exp", 64), transient("gossip:grid", 64));
    ck_assert_double_lt(transient("gossip:grid", 64), transient("gossip:ring", 64));
    ck_assert_double_eq(transient("gossip:one-peer", 64), transient("gossip:exp", 64));
    ck_assert_double_lt(transient("gossip:exp", 32), transient("gossip:exp", 64));
    ck_assert_double_lt(transient("gossip:exp:group=8", 64), transient("gossip:exp", 64));
}
END_TEST

/* delta is 0.1: 4^3 x 0.81 / 1e-4; two rounds leave 0.81: delta 0.19. */
START_TEST(compression_costs_noise_or_a_transient)
{
    ck_assert_double_eq_tol(transient("topk:0.1", 4), 64 * 0.81 / 1e-4, 1e-3);
    ck_assert_double_eq_tol(transient("neolithic:0.1", 4), 4 * pow(0.81 / 0.19, 2), 1e-6);
    ck_assert_double_eq_tol(steps("qsgd:4", 4), 1000 * (1 + sqrt(512) / 7), 1e-6);
    ck_assert_double_eq_tol(steps("ef21:0.1", 4), 1000 * 4 / 1e-3, 1e-3);
    ck_assert(isinf(steps("topk:0.1:memory=off", 4)));
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("convergence");
    tcase_add_test(tc, more_ranks_need_fewer_steps_in_proportion);
    tcase_add_test(tc, what_changes_nothing_needs_the_steps_of_all_reduce);
    tcase_add_test(tc, transients_are_those_of_the_theorems);
    tcase_add_test(tc, the_published_scale_is_that_of_imagenet_on_32_nodes);
    tcase_add_test(tc, denser_graphs_and_more_ranks_order_transients);
    tcase_add_test(tc, compression_costs_noise_or_a_transient);
    Suite *s = suite_create("sim/campaign/convergence");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
