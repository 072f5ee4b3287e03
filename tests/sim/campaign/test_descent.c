#include "sim/campaign/descent.h"
#include "tests/testing.h"

#include <math.h>

/* Constants for which the loss has round values. The gap is the loss minus the least loss. With
 * power 1 and reach 10, half of the initial gap is left when the learning rates so far sum to 10,
 * and a third when they sum to 20. */
static const struct descent descent = {
    .least = 2, .gap = 6, .reach = 10, .power = 1, .noise = 0.5, .mixing = 3, .memory = 7
};

START_TEST(the_gap_falls_with_the_sum_of_the_rates)
{
    struct descent_run run = { .rate = 0.5, .num_ranks = 4 };
    ck_assert_double_eq(descent_loss(&descent, &run, 0), 8);
    ck_assert_double_eq_tol(descent_loss(&descent, &run, 20), 2 + 6 / 2.0, 1e-12);
    ck_assert_double_eq_tol(descent_loss(&descent, &run, 40), 2 + 6 / 3.0, 1e-12);
    struct descent steep = descent;
    steep.power = 2; /* (1 + 20 / 20)^-2 of the gap is left */
    ck_assert_double_eq_tol(descent_loss(&steep, &run, 40), 2 + 6 / 4.0, 1e-12);
    run.fades = 20; /* the rates up to step 20 (e - 1) sum to 0.5 x 20 x ln e = 10 */
    ck_assert_double_eq_tol(descent_loss(&descent, &run, 20 * expm1(1)), 2 + 6 / 2.0, 1e-12);
}
END_TEST

/* Noise adds g v F / n to the loss, where g is the learning rate, v the noise, F the noise factor
 * and n the number of ranks. Different weights on the ranks add g^2 k A^2, where k is `mixing` or
 * `memory` and A^2 is `apart`. Both terms fall with the rate. */
START_TEST(noise_and_differing_weights_leave_their_terms_of_the_loss)
{
    struct descent_run run = { .rate = 0.5, .num_ranks = 4, .noise_factor = 8, .apart = 0.25 };
    ck_assert_double_eq(descent_loss(&descent, &run, 0), 8 + 0.5 * 0.5 * 8 / 4 + 0.25 * 3 * 0.25);
    run.is_memory = true;
    ck_assert_double_eq(descent_loss(&descent, &run, 0), 8 + 0.5 * 0.5 * 8 / 4 + 0.25 * 7 * 0.25);
    run.fades = 20; /* the rate is 0.25 in step 20, up to which the rates sum to 10 ln 2 */
    ck_assert_double_eq_tol(descent_loss(&descent, &run, 20),
                            2 + 6 / (1 + log(2)) + 0.25 * 0.5 * 8 / 4 + 0.0625 * 7 * 0.25, 1e-12);
    struct descent exact = descent;
    exact.noise = 0; /* without noise an infinite noise factor has no effect */
    run.noise_factor = HUGE_VAL;
    run.apart = run.fades = 0;
    ck_assert_double_eq(descent_loss(&exact, &run, 0), 8);
}
END_TEST

START_TEST(the_steps_to_a_loss_are_the_fewest_that_reach_it)
{
    struct descent_run run = { .rate = 0.5, .num_ranks = 1 };
    ck_assert_double_eq(descent_steps_to(&descent, &run, 4.0001), 40); /* 39.997 steps, rounded
                                                                        * up */
    ck_assert_double_eq(descent_steps_to(&descent, &run, 9), 0);
    ck_assert(isinf(descent_steps_to(&descent, &run, 2)));
    for (double loss = 2.1; loss < 8; loss += 0.37) {
        double steps = descent_steps_to(&descent, &run, loss);
        ck_assert_double_le(descent_loss(&descent, &run, steps), loss);
        ck_assert_double_gt(descent_loss(&descent, &run, steps - 1), loss);
    }
}
END_TEST

/* A transient has the scale r k^2 / v^3. Here r = gap x reach = 6 x 10, the noise v is 1 / 2, and k
 * is 3 (`mixing`) or 7 (`memory`). */
START_TEST(the_scales_of_transients_follow_from_gap_and_noise)
{
    struct convergence convergence = descent_convergence(&descent, 0.125);
    ck_assert_double_eq_tol(convergence.mixing_scale, 60 * 9 * 8, 1e-9);
    ck_assert_double_eq_tol(convergence.memory_scale, 60 * 49 * 8, 1e-9);
    ck_assert_double_eq(convergence.heterogeneity, 0.125);
    struct descent exact = descent;
    exact.noise = exact.memory = 0;
    convergence = descent_convergence(&exact, 0);
    ck_assert(isinf(convergence.mixing_scale) && convergence.memory_scale == 0);
}
END_TEST

START_TEST(a_run_has_the_terms_of_its_exchange)
{
    struct exchange gossip, sum;
    struct err err = { 0 };
    ck_assert(exchange_read("gossip:ring", &gossip, &err) && exchange_read("ring", &sum, &err));
    struct exchange_load load = { 0 };
    struct exchange_use use = exchange_use_of(&gossip, &load, 8);
    const struct convergence own = { .heterogeneity = 0.25 };
    struct descent_run run = descent_run_of(&use, 0.25, 0.5, 30);
    ck_assert(run.rate == 0.5 && run.fades == 30 && run.num_ranks == 8 && !run.is_memory);
    ck_assert_double_gt(run.apart, 0);
    ck_assert_double_eq(run.apart, convergence_apart(&own, &use));
    ck_assert_double_eq(run.noise_factor, 1);
    use = exchange_use_of(&sum, &load, 8);
    run = descent_run_of(&use, 0.25, 0.5, 0);
    ck_assert(run.is_memory && run.apart == 0);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("descent");
    tcase_add_test(tc, the_gap_falls_with_the_sum_of_the_rates);
    tcase_add_test(tc, noise_and_differing_weights_leave_their_terms_of_the_loss);
    tcase_add_test(tc, the_steps_to_a_loss_are_the_fewest_that_reach_it);
    tcase_add_test(tc, the_scales_of_transients_follow_from_gap_and_noise);
    tcase_add_test(tc, a_run_has_the_terms_of_its_exchange);
    Suite *s = suite_create("sim/campaign/descent");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
