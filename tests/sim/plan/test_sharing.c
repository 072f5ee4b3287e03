#include "tests/draw.h"
#include "tests/testing.h"

#include "sim/engine/sharing.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { MOST = 32 };

static double rates[MOST];

static void share(const double *capacity, int num_resources, const struct flow *flows,
                  int num_flows)
{
    struct arena scratch = { 0 };
    struct shared_wires wires = { capacity, num_resources, flows, num_flows };
    share_fairly(&wires, &scratch, rates);
    arena_release(&scratch);
}

/* A flow (a transfer) uses one or more links ("wires"); flows share the capacity of a link fairly.
 * In this test one flow has a link with enough capacity. System: r1 <= 1, and the bound of r1 is
 * 0.25. Expected: r1 = 0.25, its bound. */
START_TEST(a_single_flow_has_the_rate_of_its_bound)
{
    double capacity[] = { 1 };
    struct flow flows[] = { { 0.25, 1, { { 0, 1 } } } };
    share(capacity, 1, flows, 1);
    ck_assert_double_eq_tol(rates[0], 0.25, 1e-15);
}
END_TEST

/* Two flows that could each fill the link. System: r1 + r2 <= 1. Expected: r1 = r2 = 0.5. */
START_TEST(two_flows_share_a_link_equally)
{
    double capacity[] = { 1 };
    struct flow flows[] = { { 1, 1, { { 0, 1 } } }, { 1, 1, { { 0, 1 } } } };
    share(capacity, 1, flows, 2);
    ck_assert_double_eq_tol(rates[0], 0.5, 1e-15);
    ck_assert_double_eq_tol(rates[1], 0.5, 1e-15);
}
END_TEST

/* One of two flows needs twice the capacity per unit of rate. System: 2 r1 + r2 <= 1. Expected:
 * both rates rise to 1/3, where the link is full. */
START_TEST(a_flow_with_double_weight_uses_double_capacity)
{
    double capacity[] = { 1 };
    struct flow flows[] = { { 1, 1, { { 0, 2 } } }, { 1, 1, { { 0, 1 } } } };
    share(capacity, 1, flows, 2);
    ck_assert_double_eq_tol(rates[0], 1.0 / 3, 1e-15);
    ck_assert_double_eq_tol(rates[1], 1.0 / 3, 1e-15);
}
END_TEST

/* The other flows get the bandwidth that a slow flow does not use. System: r1 + r2 + r3 <= 1, and
 * the bound of r1 is 0.2. Expected: r1 = 0.2, r2 = r3 = 0.4. */
START_TEST(the_capacity_that_a_bounded_flow_leaves_goes_to_the_others)
{
    double capacity[] = { 1 };
    struct flow flows[] = { { 0.2, 1, { { 0, 1 } } },
                            { 1, 1, { { 0, 1 } } },
                            { 1, 1, { { 0, 1 } } } };
    share(capacity, 1, flows, 3);
    ck_assert_double_eq_tol(rates[0], 0.2, 1e-15);
    ck_assert_double_eq_tol(rates[1], 0.4, 1e-15);
    ck_assert_double_eq_tol(rates[2], 0.4, 1e-15);
}
END_TEST

/* The "parking lot": one flow over three links, and one more flow on each link. System: r0 + r1 <=
 * 1, r0 + r2 <= 2, r0 + r3 <= 3. Expected: the first link is full at 0.5, so r0 = r1 = 0.5, and r2
 * = 1.5, r3 = 2.5. */
START_TEST(a_flow_over_several_links_is_limited_by_the_fullest)
{
    double capacity[] = { 1, 2, 3 };
    struct flow flows[] = { { 10, 3, { { 0, 1 }, { 1, 1 }, { 2, 1 } } },
                            { 10, 1, { { 0, 1 } } },
                            { 10, 1, { { 1, 1 } } },
                            { 10, 1, { { 2, 1 } } } };
    share(capacity, 3, flows, 4);
    ck_assert_double_eq_tol(rates[0], 0.5, 1e-15);
    ck_assert_double_eq_tol(rates[1], 0.5, 1e-15);
    ck_assert_double_eq_tol(rates[2], 1.5, 1e-15);
    ck_assert_double_eq_tol(rates[3], 2.5, 1e-15);
}
END_TEST

START_TEST(unused_links_change_nothing)
{
    double capacity[] = { 5, 1, 7 };
    struct flow flows[] = { { 1, 1, { { 1, 1 } } }, { 1, 1, { { 1, 1 } } } };
    share(capacity, 3, flows, 2);
    ck_assert_double_eq_tol(rates[0], 0.5, 1e-15);
    ck_assert_double_eq_tol(rates[1], 0.5, 1e-15);
}
END_TEST

/* A random system of up to 8 links and 12 flows. */
struct system_of {
    double capacity[8];
    int num_resources, num_flows;
    struct flow flows[12];
};

static struct system_of random_system(void)
{
    struct system_of s = { .num_resources = 1 + rand() % 8, .num_flows = 1 + rand() % 12 };
    for (int i = 0; i < s.num_resources; i++)
        s.capacity[i] = random_between(0.5, 2);
    for (int i = 0; i < s.num_flows; i++) {
        struct flow *flow = &s.flows[i];
        flow->bound = random_between(0.05, 1.5);
        int first = rand() % s.num_resources;
        for (int j = first; j < s.num_resources && flow->num_shares < MAX_SHARES; j++)
            if (rand() % 2)
                flow->shares[flow->num_shares++] = (struct share){ j, random_between(0.5, 2) };
    }
    return s;
}

static double used(const struct system_of *s, int resource)
{
    double sum = 0;
    for (int i = 0; i < s->num_flows; i++)
        for (int j = 0; j < s->flows[i].num_shares; j++)
            if (s->flows[i].shares[j].resource == resource)
                sum += s->flows[i].shares[j].weight * rates[i];
    return sum;
}

static double fastest(const struct system_of *s, int resource)
{
    double most = 0;
    for (int i = 0; i < s->num_flows; i++)
        for (int j = 0; j < s->flows[i].num_shares; j++)
            if (s->flows[i].shares[j].resource == resource)
                most = fmax(most, rates[i]);
    return most;
}

START_TEST(no_link_exceeds_its_capacity)
{
    srand(20261120);
    for (int i = 0; i < 3000; i++) {
        struct system_of s = random_system();
        share(s.capacity, s.num_resources, s.flows, s.num_flows);
        for (int r = 0; r < s.num_resources; r++)
            ck_assert_double_le(used(&s, r), s.capacity[r] * (1 + 1e-12));
    }
}
END_TEST

/* Checks the definition of max-min fairness: a flow below its bound uses a full wire on which no
 * flow is faster. */
START_TEST(every_flow_is_at_its_bound_or_among_the_fastest_of_a_full_link)
{
    srand(20261121);
    for (int i = 0; i < 3000; i++) {
        struct system_of s = random_system();
        share(s.capacity, s.num_resources, s.flows, s.num_flows);
        for (int f = 0; f < s.num_flows; f++) {
            bool has_reason = rates[f] >= s.flows[f].bound * (1 - 1e-12);
            for (int j = 0; j < s.flows[f].num_shares; j++) {
                int r = s.flows[f].shares[j].resource;
                bool is_full = used(&s, r) >= s.capacity[r] * (1 - 1e-9);
                has_reason |= is_full && rates[f] >= fastest(&s, r) * (1 - 1e-9);
            }
            ck_assert_msg(has_reason,
                          "seed 20261121, case %d: no resource limits the rate of flow %d", i, f);
        }
    }
}
END_TEST

START_TEST(rates_scale_with_capacities_and_bounds)
{
    srand(3);
    for (int i = 0; i < 300; i++) {
        struct system_of s = random_system();
        double before[MOST];
        share(s.capacity, s.num_resources, s.flows, s.num_flows);
        for (int f = 0; f < s.num_flows; f++) {
            before[f] = rates[f];
            s.flows[f].bound *= 4;
        }
        for (int r = 0; r < s.num_resources; r++)
            s.capacity[r] *= 4;
        share(s.capacity, s.num_resources, s.flows, s.num_flows);
        for (int f = 0; f < s.num_flows; f++)
            ck_assert_double_eq_tol(rates[f], 4 * before[f], 1e-12);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("sharing");
    tcase_add_test(tc, a_single_flow_has_the_rate_of_its_bound);
    tcase_add_test(tc, two_flows_share_a_link_equally);
    tcase_add_test(tc, a_flow_with_double_weight_uses_double_capacity);
    tcase_add_test(tc, the_capacity_that_a_bounded_flow_leaves_goes_to_the_others);
    tcase_add_test(tc, a_flow_over_several_links_is_limited_by_the_fullest);
    tcase_add_test(tc, unused_links_change_nothing);
    tcase_add_test(tc, no_link_exceeds_its_capacity);
    tcase_add_test(tc, every_flow_is_at_its_bound_or_among_the_fastest_of_a_full_link);
    tcase_add_test(tc, rates_scale_with_capacities_and_bounds);
    Suite *s = suite_create("sim/engine/sharing");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
