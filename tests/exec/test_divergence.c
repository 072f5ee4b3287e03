/* Tests learning rates, the detection of loss spikes, and messages about failed runs. */
#include "exec/divergence.h"
#include "exec/learning_rate.h"
#include "exec/loss_spike.h"
#include "exec/run/rank_state.h"
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

/* --- rate ----------------------------------------------------------------------------------- */

/* The learning rate rises to 8 in 4 steps, then follows a cosine from 8 to 2 between steps 4
 * and 12. Half way, at step 8, it is 5; after a quarter and three quarters of the cosine it is 5 +-
 * 3 / sqrt(2). */
static const struct {
    struct rate_course course;
    long step;
    double expected;
} rates[] = {
    { { 0, 0, 0 }, 1, 8 },   { { 0, 0, 0 }, 1000000, 8 },
    { { 4, 0, 0 }, 1, 2 },   { { 4, 0, 0 }, 3, 6 },
    { { 4, 0, 0 }, 4, 8 },   { { 4, 0, 0 }, 5, 8 },
    { { 4, 12, 2 }, 4, 8 },  { { 4, 12, 2 }, 6, 5 + 2.1213203435596424 },
    { { 4, 12, 2 }, 8, 5 },  { { 4, 12, 2 }, 10, 5 - 2.1213203435596424 },
    { { 4, 12, 2 }, 12, 2 }, { { 4, 12, 2 }, 13, 2 },
    { { 0, 2, 0 }, 1, 4 },   { { 0, 2, 0 }, 2, 0 },
};

/* The highest learning rate is 8. */
START_TEST(the_learning_rate_rises_linearly_and_falls_as_a_cosine)
{
    double rate = rate_at(&rates[_i].course, 8, rates[_i].step);
    ck_assert_msg(fabs(rate - rates[_i].expected) < 1e-14, "the learning rate is %.17g, not %.17g",
                  rate, rates[_i].expected);
}
END_TEST

/* --- spikes --------------------------------------------------------------------------------- */

/* The first 50 losses have equal weight, so for the losses 1, 2, ..., n the detector has the mean
 * (n + 1) / 2 and the variance (n^2 - 1) / 12. Each later loss has a weight of 1 / 50. */
START_TEST(at_first_mean_and_variance_weigh_all_losses_equally)
{
    struct spike_watch watch = { 0 };
    for (int n = 1; n <= 50; n++) {
        ck_assert(!spike_seen(&watch, 1e9, n));
        ck_assert_double_eq_tol(watch.mean, (n + 1) / 2.0, 1e-12 * n);
        ck_assert_double_eq_tol(watch.variance, (n * n - 1) / 12.0, 1e-10 * n * n);
    }
    ck_assert(!spike_seen(&watch, 1e9, 51));
    ck_assert_double_eq_tol(watch.mean, 25.5 + 25.5 / 50, 1e-12);
    ck_assert(!spike_seen(&watch, 1e9, 26.01));
    ck_assert_double_eq_tol(watch.mean, 26.01, 1e-12);
}
END_TEST

/* Ten losses that alternate between 4 and 6 have mean 5 and standard deviation 1. */
static struct spike_watch ten_losses(void)
{
    struct spike_watch watch = { 0 };
    for (int i = 0; i < 10; i++)
        ck_assert(!spike_seen(&watch, 3, i % 2 ? 6 : 4));
    return watch;
}

START_TEST(a_loss_more_than_the_limit_above_the_mean_is_a_spike)
{
    static const double others[] = { 7.9, 5, 1, -100 };
    struct spike_watch watch = ten_losses();
    ck_assert(spike_seen(&watch, 3, 8.1));
    ck_assert(spike_seen(&watch, 3, HUGE_VAL));
    ck_assert_int_eq(watch.count, 10);
    for (int i = 0; i < LENGTH(others); i++) {
        watch = ten_losses();
        ck_assert_msg(!spike_seen(&watch, 3, others[i]), "the loss %g counts as a spike",
                      others[i]);
        ck_assert_int_eq(watch.count, 11);
    }
}
END_TEST

START_TEST(few_losses_equal_losses_and_nan_are_not_spikes)
{
    struct spike_watch watch = { 0 };
    for (int i = 0; i < 9; i++)
        ck_assert(!spike_seen(&watch, 3, 2));
    ck_assert(!spike_seen(&watch, 3, (double)NAN));
    ck_assert_int_eq(watch.count, 9);
    ck_assert(!spike_seen(&watch, 3, 2));
    ck_assert(!spike_seen(&watch, 3,
                          2.0059)); /* the detector's deviation is at least 0.1 % of the mean */
    watch = (struct spike_watch){ 2, 0, 10 };
    ck_assert(spike_seen(&watch, 3, 2.0061));
}
END_TEST

/* --- words ---------------------------------------------------------------------------------- */

static const struct {
    struct divergence divergence;
    const char *msg;
} told[] = {
    { { DIVERGENCE_LOSS, 7, 3, 0, 0, 0 },
      "training diverged on rank 3: the loss of its tokens is not finite" },
    { { DIVERGENCE_SCALE, 7, 0, 0, 0, 0 },
      "rank 0: gradients overflow even at the smallest loss scale" },
    { { DIVERGENCE_NORM, 7, 1, 0, 0, 0 }, "rank 1: the gradients' norm is not finite" },
    { { DIVERGENCE_GRADIENTS, 7, 2, 0, 0, 0 }, "rank 2: its gradients are not finite" },
    { { DIVERGENCE_SPIKE, 7, 0, 9, 5, 0.5 },
      "the loss 9 is 8.0 standard deviations above the mean of earlier losses, 5 (standard "
      "deviation 0.5)" },
};

START_TEST(a_divergence_names_step_rank_and_cause)
{
    struct err err = { 0 };
    ck_assert(!divergence_tell(&told[_i].divergence, &err));
    ck_assert_int_eq(err.code, ERR_DIVERGED);
    ck_assert_str_eq(err.where, "step 7");
    ck_assert_msg(strstr(err.msg, told[_i].msg), "%s", err.msg);
}
END_TEST

/* --- causes --------------------------------------------------------------------------------- */

/* A step of two stages, in which rank `rank` has an infinite gradient or, if `in_weights`, a weight
 * that is not a number. Only the second stage has a loss. In fp16 an overflow halves the loss
 * scale, unless the loss scale is 1. */
static const struct {
    int precision, rank; /* -1: no rank */
    bool in_weights;
    double loss_scale;
    enum divergence_kind kinds[2];
    bool is_skipped;
} causes[] = {
    { PRECISION_FP32, -1, false, 1, { DIVERGENCE_NONE, DIVERGENCE_NONE }, false },
    { PRECISION_FP32, 0, false, 1, { DIVERGENCE_GRADIENTS, DIVERGENCE_NORM }, true },
    { PRECISION_FP32, 1, false, 1, { DIVERGENCE_NORM, DIVERGENCE_GRADIENTS }, true },
    { PRECISION_FP32, 1, true, 1, { DIVERGENCE_GRADIENTS, DIVERGENCE_LOSS }, true },
    { PRECISION_FP16, -1, false, 8, { DIVERGENCE_NONE, DIVERGENCE_NONE }, false },
    { PRECISION_FP16, 0, false, 8, { DIVERGENCE_NONE, DIVERGENCE_NONE }, true },
    { PRECISION_FP16, 1, false, 1, { DIVERGENCE_SCALE, DIVERGENCE_SCALE }, true },
    { PRECISION_FP16, 1, true, 8, { DIVERGENCE_NONE, DIVERGENCE_LOSS }, true },
};

static int cause; /* index of the current cause */

static bool step_with_cause(struct rank *rank, const struct parity_run *run, struct err *err)
{
    (void)run;
    bool is_loss_kept = rank->on.rank == 1;
    struct store *store = &rank->stores[0];
    struct step_result result;
    struct err diverged = { 0 };
    rank->loss_scale.scale = causes[cause].loss_scale;
    if (rank->on.rank == causes[cause].rank && causes[cause].in_weights)
        memset(store->values, 0xff, 8);
    else if (rank->on.rank == causes[cause].rank)
        store->gradients[0] = HUGE_VALF;
    enum divergence_kind kind = causes[cause].kinds[rank->on.rank];
    bool ok = rank_step(rank, 5, NULL, &result, &diverged);
    double tokens = rank->setup.model->batch * rank->setup.model->seq;
    if (ok == (kind == DIVERGENCE_NONE) && result.divergence == kind &&
        result.is_skipped == causes[cause].is_skipped && rank->skipped == result.is_skipped &&
        result.loss_scale == causes[cause].loss_scale &&
        (causes[cause].in_weights || (result.loss / tokens > 1) == is_loss_kept))
        return true;
    return err_set(err, ERR_INPUT, "step", "divergence %d, skipped %d, loss scale %g, loss %g: %s",
                   (int)result.divergence, result.is_skipped, result.loss_scale, result.loss,
                   diverged.msg);
}

START_TEST(a_step_tells_on_each_rank_why_training_diverges)
{
    struct model model = parity_gpt();
    struct parity_result none;
    cause = _i;
    model.tied = false;
    parity_run(&model, "pp2 mb2",
               &(struct parity_run){ .optimizer = OPTIMIZER_SGD,
                                     .rate = 0.1F,
                                     .precision = causes[_i].precision,
                                     .seed = 3,
                                     .before = step_with_cause },
               &none);
    parity_release(&none);
}
END_TEST

static Suite *suite(void)
{
    TCase *steps = tcase_create("steps"), *tc = tcase_create("divergence");
    tcase_set_tags(steps, THREADS);
    tcase_add_loop_test(steps, a_step_tells_on_each_rank_why_training_diverges, 0, LENGTH(causes));
    tcase_add_loop_test(tc, the_learning_rate_rises_linearly_and_falls_as_a_cosine, 0,
                        LENGTH(rates));
    tcase_add_test(tc, at_first_mean_and_variance_weigh_all_losses_equally);
    tcase_add_test(tc, a_loss_more_than_the_limit_above_the_mean_is_a_spike);
    tcase_add_test(tc, few_losses_equal_losses_and_nan_are_not_spikes);
    tcase_add_loop_test(tc, a_divergence_names_step_rank_and_cause, 0, LENGTH(told));
    Suite *s = suite_create("exec/divergence");
    suite_add_tcase(s, tc);
    suite_add_tcase(s, steps);
    return s;
}

TEST_MAIN(suite)
