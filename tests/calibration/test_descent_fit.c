#include "base/random.h"
#include "calibration/fit/descent_fit.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

/* Makes loss curves from known constants, with noise like that of minibatches. */
enum { MOST_RUNS = 4, MOST_STEPS = 1200 };
static const struct descent known = { .least = 0.6,
                                      .gap = 0.4,
                                      .reach = 30,
                                      .power = 1.5,
                                      .noise = 0.5,
                                      .mixing = 0.02,
                                      .memory = 1e-4 };
static const struct exchange_tensor tensor = { 100, 100, 1 };
static const struct exchange_load load = { &tensor, 1, 4 };

struct curves {
    struct loss_run runs[MOST_RUNS];
    double losses[MOST_RUNS][MOST_STEPS];
    struct exchange exchanges[MOST_RUNS];
    struct descent_request request;
    struct descent_fit fit;
    struct err err;
};

static double normal(struct random *rng)
{
    double radius = sqrt(-2 * log(1 - random_unit(rng)));
    return radius * cos(6.283185307179586 * random_unit(rng));
}

static void add(struct curves *c, const char *word, int num_ranks, double rate, double fades,
                int steps)
{
    int i = c->request.num_runs++;
    struct random rng = random_new((uint64_t)c->request.num_runs, (uint64_t)i + 100);
    struct err err = { 0 };
    ck_assert(exchange_read(word, &c->exchanges[i], &err));
    struct exchange_use use = exchange_use_of(&c->exchanges[i], &load, num_ranks);
    c->runs[i] =
        (struct loss_run){ word, descent_run_of(&use, c->request.heterogeneity, rate, fades),
                           c->losses[i], steps };
    for (int step = 0; step < steps; step++)
        c->losses[i][step] = descent_loss(&known, &c->runs[i].run, step) + 2e-3 * normal(&rng);
}

static bool fit(struct curves *c)
{
    c->request.runs = c->runs;
    c->err = (struct err){ 0 };
    return descent_fit(&c->request, &c->fit, &c->err);
}

static void check_fit(struct curves *c)
{
    ck_assert_msg(fit(c), "%s: %s", c->err.where, c->err.msg);
}

/* Checks that a constant is within twice the 90 % interval, in logarithms: one fit in ten is
 * outside the interval itself. */
static void check_within(const struct descent_fit *fit, enum descent_constant constant)
{
    double is = descent_constant_value(&fit->descent, constant);
    double was = descent_constant_value(&known, constant);
    double width = log(fit->intervals[constant].high / is);
    ck_assert(fit->is_fitted[constant]);
    ck_assert_msg(fabs(log(is / was)) <= 2 * width && width < 1.3,
                  "%s: fitted %g (%g to %g), true value %g", descent_constant_names[constant], is,
                  fit->intervals[constant].low, fit->intervals[constant].high, was);
}

/* --- recovered ---------------------------------------------------------------------------- */

START_TEST(runs_on_two_numbers_of_ranks_determine_noise_and_least_loss)
{
    struct curves c = { .request = { .least = -1 } };
    add(&c, "allreduce", 2, 0.4, 0, 1000);
    add(&c, "allreduce", 8, 0.4, 0, 1000);
    check_fit(&c);
    for (int j = DESCENT_LEAST; j <= DESCENT_NOISE; j++)
        check_within(&c.fit, (enum descent_constant)j);
    ck_assert(!c.fit.is_fitted[DESCENT_MIXING] && c.fit.convergence.mixing_scale == 0);
}
END_TEST

START_TEST(a_gossip_run_determines_the_cost_of_disagreement)
{
    struct curves c = { .request = { .least = -1, .heterogeneity = 0.5 } };
    add(&c, "allreduce", 2, 0.4, 0, 1000);
    add(&c, "allreduce", 8, 0.4, 0, 1000);
    add(&c, "gossip:ring", 8, 0.4, 0, 1000);
    add(&c, "topk:0.1", 8, 0.4, 0, 1000);
    check_fit(&c);
    for (int j = 0; j < NUM_DESCENT_CONSTANTS; j++)
        check_within(&c.fit, (enum descent_constant)j);
    struct convergence made = descent_convergence(&known, 0.5);
    double width = log(c.fit.mixing_scale.high / c.fit.convergence.mixing_scale);
    ck_assert_double_le(fabs(log(c.fit.convergence.mixing_scale / made.mixing_scale)), 2 * width);
    ck_assert_double_eq(c.fit.convergence.heterogeneity, 0.5);
}
END_TEST

/* The loss curve of one run determines the constants if its learning rate decreases and the least
 * loss is known. */
START_TEST(a_decaying_rate_separates_noise_from_disagreement)
{
    struct curves c = { .request = { .least = known.least, .heterogeneity = 1 } };
    add(&c, "gossip:ring", 8, 1, 60, 1200);
    check_fit(&c);
    for (int j = DESCENT_GAP; j <= DESCENT_MIXING; j++)
        check_within(&c.fit, (enum descent_constant)j);
}
END_TEST

/* --- refused ------------------------------------------------------------------------------ */

static void check_refused(struct curves *c, const char *where, const char *words)
{
    ck_assert(!fit(c));
    ck_assert_int_eq(c->err.code, ERR_INPUT);
    ck_assert_str_eq(c->err.where, where);
    ck_assert_msg(strstr(c->err.msg, words) != NULL, "%s", c->err.msg);
}

START_TEST(one_number_of_ranks_at_one_rate_does_not_determine_noise)
{
    struct curves c = { .request = { .least = -1 } };
    add(&c, "allreduce", 8, 0.4, 0, 1000);
    check_refused(&c, "noise", "another learning rate or number of ranks");
    add(&c, "allreduce", 8, 0.4, 0, 500);
    check_refused(&c, "noise", "another learning rate or number of ranks");
}
END_TEST

START_TEST(gossip_alone_does_not_separate_noise_from_disagreement)
{
    struct curves c = { .request = { .least = known.least } };
    add(&c, "gossip:ring", 8, 0.4, 0, 1000);
    check_refused(&c, "mixing", "all-reduce");
}
END_TEST

START_TEST(too_few_steps_or_rising_losses_are_refused)
{
    struct curves c = { .request = { .least = known.least } };
    add(&c, "allreduce", 8, 0.4, 0, 29);
    check_refused(&c, "allreduce", "found 29");
    c.request.num_runs = 0;
    add(&c, "allreduce", 8, 0.4, 0, 300);
    for (int i = 0; i < 300; i++)
        c.losses[0][i] = 1 + 0.01 * i;
    check_refused(&c, "allreduce", "diverging");
    c.losses[0][40] = (double)NAN;
    check_refused(&c, "allreduce", "step 41");
    c.request.num_runs = 0;
    add(&c, "allreduce", 8, 0.4, 0, 300);
    c.runs[0].run.noise_factor = HUGE_VAL; /* top-k without error feedback */
    check_refused(&c, "allreduce", "discards");
}
END_TEST

/* The start of the curve alone does not determine its end. */
START_TEST(a_run_that_ends_too_early_is_refused)
{
    struct curves c = { .request = { .least = -1 } };
    add(&c, "allreduce", 2, 0.01, 0, 40);
    add(&c, "allreduce", 8, 0.01, 0, 40);
    ck_assert(!fit(&c));
    ck_assert_msg(strstr(c.err.msg, "longer ones") != NULL, "%s: %s", c.err.where, c.err.msg);
}
END_TEST

/* --- the model ---------------------------------------------------------------------------- */

START_TEST(steps_to_a_loss_are_where_the_curve_reaches_it)
{
    struct exchange exchange = { 0 };
    struct exchange_use use = exchange_use_of(&exchange, &load, 8);
    struct descent_run run = descent_run_of(&use, 0, 0.4, 0), fading = run;
    fading.fades = 50;
    double steps = descent_steps_to(&known, &run, 0.7);
    ck_assert_double_le(descent_loss(&known, &run, steps), 0.7);
    ck_assert_double_gt(descent_loss(&known, &run, steps - 1), 0.7);
    ck_assert(isinf(descent_steps_to(&known, &run, 0.62))); /* noise keeps the loss above 0.625 */
    ck_assert(isfinite(descent_steps_to(&known, &fading, 0.62)));
    ck_assert_double_eq(descent_loss(&known, &run, 0), 1 + 0.4 * 0.5 / 8);
}
END_TEST

/* The transient of an exchange method ends where the loss that disagreement between ranks adds
 * equals the loss that noise adds. At step T, n ranks with all-reduce have the best learning rate
 * sqrt(gap x reach x n / (noise x T)). So descent_fit.h and convergence.h define noise and
 * transients consistently. */
START_TEST(at_the_end_of_the_transient_disagreement_equals_noise)
{
    struct err err = { 0 };
    struct exchange ring;
    ck_assert(exchange_read("gossip:ring", &ring, &err));
    struct exchange_use use = exchange_use_of(&ring, &load, 16);
    struct convergence convergence = descent_convergence(&known, 0.3);
    double steps = convergence_transient_steps(&convergence, &use);
    double rate = sqrt(known.gap * known.reach * 16 / (known.noise * steps));
    double noise = rate * known.noise / 16;
    double apart = rate * rate * known.mixing * convergence_apart(&convergence, &use);
    ck_assert_double_eq_tol(noise, apart, 1e-9 * noise);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("descent");
    tcase_add_test(tc, runs_on_two_numbers_of_ranks_determine_noise_and_least_loss);
    tcase_add_test(tc, a_gossip_run_determines_the_cost_of_disagreement);
    tcase_add_test(tc, a_decaying_rate_separates_noise_from_disagreement);
    tcase_add_test(tc, one_number_of_ranks_at_one_rate_does_not_determine_noise);
    tcase_add_test(tc, gossip_alone_does_not_separate_noise_from_disagreement);
    tcase_add_test(tc, too_few_steps_or_rising_losses_are_refused);
    tcase_add_test(tc, a_run_that_ends_too_early_is_refused);
    tcase_add_test(tc, steps_to_a_loss_are_where_the_curve_reaches_it);
    tcase_add_test(tc, at_the_end_of_the_transient_disagreement_equals_noise);
    Suite *s = suite_create("calibration/fit/descent_fit");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
