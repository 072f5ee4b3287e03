/* not under asan: the test checks how fast a loss falls, which does not depend on the variant */
#include "tests/testing.h"

#include "calibration/fit/descent_fit.h"
#include "exec/plugin/backend.h"
#include "tests/exec/exchange/exchange_side.h"
#include "tests/exec/mpirun.h"
#include "tests/exec/rank_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Four ranks have a hundred samples each. Each rank's samples are drawn around a true vector; the
 * distance of these vectors from their mean is twice the mean's length. The 64 features form an 8 x
 * 8 matrix, for low-rank compression. */
enum { RANKS = 4, SAMPLES = 100, FEATURES = 64 };
static const struct exchange_tensor weights[] = { { 8, 8, 1 } };

static struct arena arena;
static struct logistic problem;

static struct logistic four_shards(struct arena *into)
{
    return logistic_new(RANKS, SAMPLES, FEATURES, 2, 5, into);
}

static void begin(void)
{
    problem = four_shards(&arena);
}

static void end(void)
{
    arena_release(&arena);
}

/* An exchange, given by its layout word, and the results of rank 0. */
struct trial {
    const char *word;
    struct convex_run run;
};

static bool train(const struct exchange_world *world, struct trial *trial)
{
    struct exchange_side side;
    struct convex_run run = trial->run;
    bool ok = exchange_side_open(&side, world, trial->word, weights, 1, 1) &&
              exchange_side_train(&side, &run);
    if (world->rank == 0)
        trial->run = run;
    exchange_side_close(&side);
    return ok;
}

static bool train_here(struct rank_job *job, const struct comm_options *options)
{
    struct exchange_world world;
    bool ok = exchange_world_open(&world, job->api, options) && train(&world, job->context);
    if (world.comm)
        world.api->close(world.comm);
    return ok;
}

static struct convex_run trained(const struct comm_api *api, const char *word,
                                 struct convex_run how)
{
    struct trial trial = { word, how };
    trial.run.problem = &problem;
    rank_job_run((struct rank_job){
        .api = api, .size = RANKS, .seed = 1, .run = train_here, .context = &trial });
    return trial.run;
}

static double gap(const struct convex_run *run)
{
    return run->loss - problem.least;
}

/* --- the problem -------------------------------------------------------------------------- */

START_TEST(the_gradient_at_the_optimum_is_0_up_to_rounding)
{
    ck_assert_double_le(logistic_slope(&problem, problem.optimum), 1e-14);
    double nearby[FEATURES];
    for (int i = 0; i < FEATURES; i++) {
        memcpy(nearby, problem.optimum, sizeof nearby);
        nearby[i] += 1e-3;
        ck_assert_double_gt(logistic_loss(&problem, nearby), problem.least);
        nearby[i] -= 2e-3;
        ck_assert_double_gt(logistic_loss(&problem, nearby), problem.least);
    }
}
END_TEST

START_TEST(no_shards_own_gradient_is_0_at_the_common_optimum)
{
    float x[FEATURES], gradient[FEATURES];
    for (int i = 0; i < FEATURES; i++)
        x[i] = (float)problem.optimum[i];
    for (int rank = 0; rank < RANKS; rank++) {
        double squares = 0;
        logistic_gradient(&problem, rank, x, gradient);
        for (int i = 0; i < FEATURES; i++)
            squares += (double)gradient[i] * (double)gradient[i];
        ck_assert_double_gt(sqrt(squares), 0.1);
    }
}
END_TEST

/* --- methods ------------------------------------------------------------------------------ */

static const struct convex_run fading = { .steps = 300, .rate = 1, .fades = 37.5 };

START_TEST(every_exact_sum_gives_the_same_descent)
{
    static const char *const words[] = { "ring", "tree", "hierarchical:group=2", "ps:2" };
    const struct convex_run early = { .steps = 60, .rate = 1 };
    struct convex_run plain = trained(&comm_local, "allreduce", early);
    for (int i = 0; i < LENGTH(words); i++) {
        struct convex_run run = trained(&comm_local, words[i], early);
        ck_assert_double_eq_tol(run.loss, plain.loss, 1e-9);
        ck_assert_double_eq(run.apart, 0);
    }
}
END_TEST

/* Both methods send a tenth of the elements. */
START_TEST(top_k_reaches_the_optimum_only_with_error_feedback)
{
    struct convex_run plain = trained(&comm_local, "allreduce", fading);
    struct convex_run with = trained(&comm_local, "topk:0.1", fading);
    struct convex_run without = trained(&comm_local, "topk:0.1:memory=off", fading);
    ck_assert_double_le(with.loss / plain.loss, 1.02);
    ck_assert_double_gt(without.loss / plain.loss, 1.02);
    ck_assert_double_lt(with.sent_bytes, plain.sent_bytes / 2);
}
END_TEST

START_TEST(other_compressions_with_error_feedback_reach_the_optimum)
{
    static const char *const words[] = { "ef21:0.1", "neolithic:0.1", "qsgd:4", "powersgd:1" };
    struct convex_run plain = trained(&comm_local, "allreduce", fading);
    for (int i = 0; i < LENGTH(words); i++) {
        if (is_spared(i, 2))
            continue;
        struct convex_run run = trained(&comm_local, words[i], fading);
        ck_assert_msg(run.loss <= 1.02 * plain.loss,
                      "%s: the loss is %.6f, but %.6f without compression", words[i], run.loss,
                      plain.loss);
    }
}
END_TEST

/* If ranks' data differ, a constant learning rate keeps the ranks' weights apart, by a distance
 * proportional to the updates between two averages. With each of these methods, half the learning
 * rate leads to half this distance and a quarter of the excess loss (the loss minus the least loss)
 * (Yuan, Ling and Yin 2016; Stich 2019). */
static const char *const apart_words[] = { "gossip:ring", "gossip:exp", "gossip:one-peer",
                                           "gossip:ring:combine=beside", "local:4" };

START_TEST(half_the_rate_leaves_half_the_distance_and_a_quarter_of_the_loss)
{
    const char *word = apart_words[_i];
    if (is_spared(_i, 3))
        return;
    struct convex_run whole =
        trained(&comm_local, word, (struct convex_run){ .steps = 599, .rate = 1 });
    struct convex_run half =
        trained(&comm_local, word, (struct convex_run){ .steps = 599, .rate = 0.5 });
    double fall = gap(&whole) / gap(&half);
    ck_assert_msg(fall > 2.8 && fall < 5.2,
                  "%s: the excess loss is %.3e, and %.3e at half the rate", word, gap(&whole),
                  gap(&half));
    double nearer = whole.apart / half.apart;
    ck_assert_msg(nearer > 1.6 && nearer < 2.4,
                  "%s: ranks are %.3e apart, and %.3e at half the rate", word, whole.apart,
                  half.apart);
}
END_TEST

/* The distance between ranks' weights also grows with H - 1, the number of steps without averaging
 * in a period of H steps. The excess loss grows with the square of this distance: with period 2 it
 * is about a ninth of that with period 4. */
START_TEST(longer_periods_leave_a_larger_excess_loss)
{
    const struct convex_run constant = { .steps = 600, .rate = 0.5 };
    struct convex_run two = trained(&comm_local, "local:2", constant);
    struct convex_run four = trained(&comm_local, "local:4", constant);
    double rise = gap(&four) / gap(&two);
    ck_assert_msg(rise > 4 && rise < 13,
                  "the excess loss is %.3e with local:2 and %.3e with local:4", gap(&two),
                  gap(&four));
}
END_TEST

START_TEST(with_a_decaying_rate_averaging_methods_reach_the_optimum)
{
    static const char *const words[] = { "gossip:ring",
                                         "gossip:exp",
                                         "gossip:one-peer",
                                         "gossip:grid",
                                         "gossip:ring:combine=beside",
                                         "local:4",
                                         "pga:4:graph=ring",
                                         "aga:2",
                                         "gossip:ring:group=2" };
    struct convex_run plain = trained(&comm_local, "allreduce", fading);
    ck_assert_double_le(gap(&plain), 1e-6);
    for (int i = 0; i < LENGTH(words); i++) {
        if (is_spared(i, 5))
            continue;
        struct convex_run run = trained(&comm_local, words[i], fading);
        ck_assert_msg(run.loss <= 1.001 * plain.loss,
                      "%s: the loss is %.6f, but %.6f with all-reduce", words[i], run.loss,
                      plain.loss);
        ck_assert_double_eq(run.sent_bytes, run.planned_bytes);
    }
}
END_TEST

/* --- comparison with theory ---------------------------------------------------------------- */

static struct loss_run losses_of(const struct exchange *exchange, const struct convex_run *run)
{
    static const struct exchange_load load = { weights, 1, sizeof(float) };
    const double heterogeneity = 0.2; /* an approximate value, found for gradients of 16 samples */
    struct exchange_use use = exchange_use_of(exchange, &load, RANKS);
    return (struct loss_run){ exchange_method_of(exchange)->name,
                              descent_run_of(&use, heterogeneity, run->rate, run->fades),
                              run->losses, run->steps };
}

static int steps_below(const double *losses, int count, double loss)
{
    enum { ROW = 10 };
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += losses[i] - (i < ROW ? 0 : losses[i - ROW]);
        if (i >= ROW && sum / ROW <= loss)
            return i;
    }
    return count;
}

/* The constants are fitted on a quarter of the steps of Local SGD with gradients of 16 samples.
 * They predict, within a factor of 1.4, the steps that other methods need to reach a small excess
 * loss. (Gossip over four ranks is not used for the fit, as it keeps ranks' weights too close
 * together.) */
START_TEST(constants_of_one_short_run_predict_the_steps_of_other_methods)
{
    enum { SHORT = 300, WHOLE = 560 };
    static const char *const words[] = { "allreduce",  "gossip:ring",      "gossip:one-peer",
                                         "gossip:exp", "pga:8:graph=ring", "local:16" };
    static double losses[WHOLE];
    const double gap_wanted = 8e-3;
    struct convex_run noisy = {
        .steps = SHORT, .rate = 1, .fades = 100, .batch = 16, .losses = losses
    };
    struct exchange exchange;
    struct descent_fit fit;
    struct err err = { 0 };
    struct convex_run local = trained(&comm_local, "local:4", noisy);
    ck_assert(exchange_read("local:4", &exchange, &err));
    struct loss_run run = losses_of(&exchange, &local);
    struct descent_request request = { &run, 1, problem.least, 0.2, false };
    ck_assert_msg(descent_fit(&request, &fit, &err), "%s: %s", err.where, err.msg);
    noisy.steps = WHOLE;
    for (int i = 0; i < LENGTH(words); i++) {
        if (is_spared(i, 5))
            continue;
        struct convex_run other = trained(&comm_local, words[i], noisy);
        ck_assert(exchange_read(words[i], &exchange, &err));
        run = losses_of(&exchange, &other);
        double predicted = descent_steps_to(&fit.descent, &run.run, problem.least + gap_wanted);
        double measured = steps_below(losses, WHOLE, problem.least + gap_wanted);
        ck_assert_msg(measured < WHOLE && fabs(log(predicted / measured)) < log(1.4),
                      "%s: %g steps are predicted, but %g were needed", words[i], predicted,
                      measured);
    }
}
END_TEST

/* --- other communicators ------------------------------------------------------------------ */

static const char *const anywhere[] = { "ring",    "ps:2",     "gossip:one-peer",
                                        "local:8", "topk:0.1", "qsgd:4" };
static const struct convex_run short_run = { .steps = 40, .rate = 1 };

START_TEST(processes_over_sockets_train_like_threads)
{
    for (int i = 0; i < LENGTH(anywhere); i++) {
        struct convex_run here = trained(&comm_local, anywhere[i], short_run);
        struct convex_run there = trained(&comm_tcp, anywhere[i], short_run);
        ck_assert_double_eq_tol(there.loss, here.loss, 1e-6);
        ck_assert_double_eq(there.sent_bytes, here.sent_bytes);
    }
}
END_TEST

/* The ranks that mpirun starts from this program call this. The environment variable TEST_EXPECTED
 * lists the loss and the bytes of each exchange. */
static bool is_expected(const struct trial *trial, const char **expected)
{
    char *rest;
    double loss = strtod(*expected, &rest), sent_bytes = strtod(rest, &rest);
    bool ok = fabs(trial->run.loss - loss) < 1e-6 && trial->run.sent_bytes == sent_bytes;
    if (!ok)
        printf("%s: the loss is %.9f, expected %.9f; %.0f bytes were sent, expected %.0f\n",
               trial->word, trial->run.loss, loss, trial->run.sent_bytes, sent_bytes);
    *expected = rest;
    return ok;
}

static int be_mpi_rank(void)
{
    struct place place;
    struct err err = { 0 };
    struct exchange_world world;
    struct comm_options options = { .place = &place, .device = &device_host };
    const char *expected = getenv("TEST_EXPECTED");
    const struct comm_api *mpi = comm_find("mpi", &err);
    if (!mpi || !expected || !place_of_environment(&place, &err) ||
        !exchange_world_open(&world, mpi, &options))
        return 1;
    begin();
    bool ok = true;
    for (int i = 0; i < LENGTH(anywhere); i++) {
        struct trial trial = { anywhere[i], short_run };
        trial.run.problem = &problem;
        ok = train(&world, &trial) && (place.rank > 0 || is_expected(&trial, &expected)) && ok;
    }
    mpi->close(world.comm);
    end();
    return !ok;
}

START_TEST(ranks_over_mpi_train_like_threads)
{
    char expected[LENGTH(anywhere) * 64] = "";
    if (!mpirun_is_here())
        return;
    for (int i = 0; i < LENGTH(anywhere); i++) {
        struct convex_run here = trained(&comm_local, anywhere[i], short_run);
        size_t length = strlen(expected);
        snprintf(expected + length, sizeof expected - length, "%.12g %.0f ", here.loss,
                 here.sent_bytes);
    }
    setenv("TEST_EXPECTED", expected, 1);
    mpirun_self(RANKS);
}
END_TEST

/* --- late gradients ----------------------------------------------------------------------- */

enum { LATE_STEPS = 40, MOST_LATE = 4 };

static void mean_gradient(const float *x, double mean[FEATURES])
{
    float own[FEATURES];
    memset(mean, 0, sizeof(double) * FEATURES);
    for (int rank = 0; rank < RANKS; rank++) {
        logistic_gradient(&problem, rank, x, own);
        for (int i = 0; i < FEATURES; i++)
            mean[i] += (double)own[i] / RANKS;
    }
}

/* With a delay of S steps, x_t+1 = x_t - rate g(x_t-S); nothing is applied before the first
 * gradient arrives. */
static double loss_of_late_descent(int staleness, double rate)
{
    double waiting[MOST_LATE + 1][FEATURES] = { { 0 } };
    float x[FEATURES] = { 0 };
    for (int step = 0; step < LATE_STEPS; step++) {
        mean_gradient(x, waiting[step % (staleness + 1)]);
        const double *oldest = waiting[(step + 1) % (staleness + 1)];
        for (int i = 0; i < FEATURES; i++)
            x[i] -= (float)(rate * oldest[i]);
    }
    return logistic_loss_of_floats(&problem, x);
}

START_TEST(an_asynchronous_server_applies_gradients_with_the_stated_delay)
{
    static const struct {
        const char *word;
        int staleness;
    } late[] = { { "async", 1 }, { "async:3:servers=2", 3 }, { "async:4", 4 } };
    const struct convex_run early = { .steps = LATE_STEPS, .rate = 0.1 };
    for (int i = 0; i < LENGTH(late); i++) {
        struct convex_run run = trained(&comm_local, late[i].word, early);
        ck_assert_double_eq_tol(run.loss, loss_of_late_descent(late[i].staleness, 0.1), 1e-6);
        ck_assert_double_eq(run.apart, 0);
        ck_assert_double_eq(run.sent_bytes, run.planned_bytes);
    }
}
END_TEST

/* --- hostile ranks ------------------------------------------------------------------------ */

/* Eight ranks have the same true vector, and enough samples that gradients differ between ranks by
 * less than their length. */
enum { MANY = 8, FEW = 16 };

static bool train_hostile(void *job, const struct exchange_world *world)
{
    return train(world, job);
}

static struct convex_run trained_by_eight(const struct logistic *eight, const char *word,
                                          const char *hostile)
{
    struct trial trial = { word, { .problem = eight, .steps = 60, .rate = 2 } };
    struct err err = { 0 };
    if (hostile)
        ck_assert_msg(hostility_read(hostile, &trial.run.hostility, &err), "%s", err.msg);
    ck_assert(exchange_threads_run(MANY, train_hostile, &trial));
    return trial.run;
}

static const char *const hostile[] = { "2:flip", "2:noise:300", "2:silence" };
static const char *const robust[] = { "median:2", "trimmed:2", "krum:2", "geomedian:2" };

START_TEST(two_hostile_ranks_of_eight_harm_the_mean_but_no_robust_rule)
{
    struct arena own = { 0 };
    struct logistic eight = logistic_new(MANY, 1000, FEW, 0, 5, &own);
    double clean = trained_by_eight(&eight, "allreduce", NULL).loss;
    ck_assert_double_le(clean, 1.001 * eight.least);
    for (int i = 0; i < LENGTH(robust); i++) {
        struct convex_run run = trained_by_eight(&eight, robust[i], hostile[_i]);
        ck_assert_msg(run.loss <= 1.02 * clean,
                      "%s, %s: the loss is %g, but %g without hostile ranks", robust[i],
                      hostile[_i], run.loss, clean);
        ck_assert_double_eq(run.sent_bytes, run.planned_bytes);
    }
    double hurt = trained_by_eight(&eight, "allreduce", hostile[_i]).loss;
    if (strcmp(hostile[_i], "2:silence") != 0)
        ck_assert_double_gt(hurt, 1.1 * clean);
    arena_release(&own);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("convex");
    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, the_gradient_at_the_optimum_is_0_up_to_rounding);
    tcase_add_test(tc, no_shards_own_gradient_is_0_at_the_common_optimum);
    tcase_add_test(tc, every_exact_sum_gives_the_same_descent);
    tcase_add_test(tc, top_k_reaches_the_optimum_only_with_error_feedback);
    tcase_add_test(tc, other_compressions_with_error_feedback_reach_the_optimum);
    tcase_add_loop_test(tc, half_the_rate_leaves_half_the_distance_and_a_quarter_of_the_loss, 0,
                        LENGTH(apart_words));
    tcase_add_test(tc, longer_periods_leave_a_larger_excess_loss);
    tcase_add_test(tc, with_a_decaying_rate_averaging_methods_reach_the_optimum);
    tcase_add_test(tc, constants_of_one_short_run_predict_the_steps_of_other_methods);
    tcase_add_test(tc, an_asynchronous_server_applies_gradients_with_the_stated_delay);
    tcase_add_loop_test(tc, two_hostile_ranks_of_eight_harm_the_mean_but_no_robust_rule, 0,
                        LENGTH(hostile));
    tcase_add_test(tc, processes_over_sockets_train_like_threads);
    tcase_add_test(tc, ranks_over_mpi_train_like_threads);
    Suite *s = suite_create("exec/exchange, a convex problem");
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return mpirun_is_rank() ? be_mpi_rank() : run_suite(suite());
}
