/* Tests training with values in 16 bits. The host computes in fp32 and rounds wherever a GPU would
 * round. */
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

static struct parity_run run_of(int precision)
{
    return (struct parity_run){
        .steps = 6, .optimizer = OPTIMIZER_ADAM, .rate = 0.003F, .precision = precision, .seed = 3
    };
}

static const struct {
    int precision;
    double loss_error; /* allowed relative difference from fp32's loss: a few roundings of 2^-9
                        * (bf16) and 2^-12 (fp16) */
} kept[] = { { PRECISION_BF16, 4e-3 }, { PRECISION_FP16, 5e-4 } };

START_TEST(values_in_16_bits_train_nearly_like_fp32)
{
    if (is_spared(_i, 1))
        return;
    struct model model = _i % 2 ? parity_llama() : parity_gpt();
    struct parity_run exact = run_of(PRECISION_FP32), run = run_of(kept[_i / 2].precision);
    struct parity_result one, rounded;
    parity_run(&model, "mb2", &exact, &one);
    parity_run(&model, "tp2 sp pp2 dp2 zero1 mb2", &run, &rounded);
    for (int step = 0; step < run.steps; step++) {
        double error = fabs(rounded.loss[step] / one.loss[step] - 1);
        ck_assert_msg(error < kept[_i / 2].loss_error,
                      "step %d: the loss is %.6g, but %.6g in fp32", step + 1, rounded.loss[step],
                      one.loss[step]);
        ck_assert_msg(error > 0, "step %d: nothing was rounded", step + 1);
        ck_assert(!rounded.is_skipped[step]);
    }
    parity_release(&one);
    parity_release(&rounded);
}
END_TEST

/* --- overflow ----------------------------------------------------------------------------- */

enum { MICROBATCHES = 4 };

static const float infinite = INFINITY;

/* Makes one microbatch of one rank overflow. A rank is a thread. */
static _Thread_local int num_losses;
static int bad_losses; /* number of steps after the first two that overflow */

static void overflow(struct kernels *kernels, struct stream *stream,
                     const struct loss_gradient *args)
{
    struct loss_gradient wrong = *args;
    int step = num_losses++ / MICROBATCHES + 1;
    bool is_first = args->loss.first == 0 && num_losses % MICROBATCHES == 0;
    if (is_first && step > 2 && step <= 2 + bad_losses)
        wrong.scale = &infinite;
    kernels_host.loss_gradient(kernels, stream, &wrong);
}

static struct kernel_api overflowing(int steps)
{
    struct kernel_api kernels = kernels_host;
    kernels.loss_gradient = overflow;
    bad_losses = steps;
    return kernels;
}

static bool is_stored_equal(const struct parity_result *a, const struct parity_result *b)
{
    return parity_distance(a, b) == 0;
}

START_TEST(a_step_that_overflows_is_skipped_on_all_ranks)
{
    struct model model = parity_gpt();
    struct kernel_api kernels = overflowing(1);
    struct parity_run run = run_of(PRECISION_FP16);
    struct parity_result before, after;
    run.kernels = &kernels;
    run.steps = 2;
    parity_run(&model, "tp2 dp2 zero1 mb1", &run, &before);
    run.steps = 3;
    parity_run(&model, "tp2 dp2 zero1 mb1", &run, &after);
    ck_assert(after.is_skipped[2] && !after.is_skipped[1]);
    ck_assert(!isfinite(after.gradient_norm[2]) && isfinite(after.loss[2]));
    ck_assert(is_stored_equal(&before, &after));
    parity_release(&before);
    parity_release(&after);
}
END_TEST

START_TEST(the_loss_scale_is_halved_and_training_continues)
{
    struct model model = parity_gpt();
    struct kernel_api kernels = overflowing(2);
    struct parity_run run = run_of(PRECISION_FP16);
    struct parity_result result;
    run.kernels = &kernels;
    parity_run(&model, "tp2 dp2 mb1", &run, &result);
    static const double scales[] = { 65536, 65536, 65536, 32768, 16384, 16384 };
    for (int step = 0; step < run.steps; step++) {
        ck_assert(result.loss_scale[step] == scales[step]);
        ck_assert_int_eq(result.is_skipped[step], step == 2 || step == 3);
    }
    ck_assert(result.loss[5] < result.loss[0]);
    parity_release(&result);
}
END_TEST

/* Makes rank 0 overflow in step 3, which affects only its replica. */
static _Thread_local int own_rank, own_step;

static void know_step(const struct parity_run *run, int rank, int step)
{
    (void)run;
    own_rank = rank;
    own_step = step;
}

static void overflow_of_one(struct kernels *kernels, struct stream *stream,
                            const struct loss_gradient *args)
{
    struct loss_gradient wrong = *args;
    if (own_rank == 0 && own_step == 3)
        wrong.scale = &infinite;
    kernels_host.loss_gradient(kernels, stream, &wrong);
}

static struct parity_run run_that_overflows(struct kernel_api *kernels)
{
    struct parity_run run = run_of(PRECISION_FP16);
    *kernels = kernels_host;
    kernels->loss_gradient = overflow_of_one;
    run.kernels = kernels;
    run.at_step = know_step;
    return run;
}

/* The first replica skips its update, keeps its weights until the next average, and continues. */
START_TEST(only_the_overflowing_replica_skips_its_update)
{
    struct kernel_api kernels;
    struct model model = parity_gpt();
    struct parity_run run = run_that_overflows(&kernels);
    struct parity_result before, after;
    parity_run(&model, "tp2 dp2 mb1 exchange=local:100", &run, &after);
    for (int step = 0; step < run.steps; step++) {
        ck_assert_int_eq(after.is_skipped[step], step == 2);
        ck_assert(after.loss_scale[step] == (step <= 2 ? 65536 : 32768));
    }
    parity_release(&after);
    run.steps = 2;
    parity_run(&model, "tp2 dp2 mb1 exchange=local:100", &run, &before);
    run.steps = 3;
    parity_run(&model, "tp2 dp2 mb1 exchange=local:100", &run, &after);
    ck_assert(is_stored_equal(&before, &after));
    parity_release(&before);
    parity_release(&after);
}
END_TEST

/* The first replica skips its update. When the two replicas average their weights, it gets half of
 * the second replica's update. */
START_TEST(a_replica_that_skips_its_update_still_averages)
{
    struct kernel_api kernels;
    struct model model = parity_gpt();
    struct parity_run run = run_that_overflows(&kernels);
    struct parity_result before, after;
    run.steps = 2;
    parity_run(&model, "dp2 mb1 exchange=gossip:one-peer", &run, &before);
    run.steps = 3;
    parity_run(&model, "dp2 mb1 exchange=gossip:one-peer", &run, &after);
    ck_assert(after.is_skipped[2]);
    ck_assert_double_gt(parity_distance(&before, &after), 1e-3);
    parity_release(&before);
    parity_release(&after);
}
END_TEST

START_TEST(differing_replicas_train_in_fp16_nearly_like_fp32)
{
    struct model model = parity_llama();
    struct parity_run exact = run_of(PRECISION_FP32), run = run_of(PRECISION_FP16);
    struct parity_result one, rounded;
    parity_run(&model, "dp4 mb1 exchange=gossip:ring", &exact, &one);
    parity_run(&model, "dp4 mb1 exchange=gossip:ring", &run, &rounded);
    parity_check_losses(&one, &rounded, run.steps, 5e-4, "fp16");
    parity_release(&one);
    parity_release(&rounded);
}
END_TEST

/* The initial loss scale of 2^16 is halved 16 times, in steps 3 to 18. Without loss scaling nothing
 * is halved. */
static const struct ending {
    int precision, bad_losses;
    const char *where, *msg;
} endings[] = {
    { PRECISION_FP16, 100, "step 19", "gradients overflow even at the smallest loss scale" },
    { PRECISION_BF16, 1, "step 3", "not finite" },
};

static bool expect_ending(struct rank *rank, const struct parity_run *run, struct err *err)
{
    const struct ending *ending = run->context;
    struct step_result result;
    struct err failure = { 0 };
    long step = 3;
    (void)err;
    while (rank_step(rank, step, NULL, &result, &failure) && step < 40)
        step++;
    ck_assert_int_eq(failure.code, ERR_DIVERGED);
    ck_assert_msg(strstr(failure.msg, ending->msg), "another error was reported: %s", failure.msg);
    ck_assert(result.is_skipped);
    ck_assert_str_eq(failure.where, ending->where);
    return true;
}

/* Weights of 1e30 make the next loss infinite, and later values too. The last stage reports the
 * loss; the first stage reports its gradients. */
static bool expect_loss(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct step_result result;
    struct err failure = { 0 };
    const struct instrs *list = rank_list(rank);
    bool is_last = false;
    for (int i = 0; i < list->count; i++)
        is_last = is_last || (list->at[i].op == INSTR_FORWARD &&
                              list->at[i].chunk == rank_machine(rank)->plan->pp - 1);
    (void)run, (void)err;
    ck_assert(!rank_step(rank, 2, NULL, &result, &failure));
    ck_assert_int_eq(failure.code, ERR_DIVERGED);
    ck_assert_str_eq(failure.where, "step 2");
    ck_assert(result.divergence != DIVERGENCE_NONE);
    ck_assert_int_eq(is_last, result.divergence == DIVERGENCE_LOSS);
    return true;
}

START_TEST(a_non_finite_loss_is_reported_by_the_stage_where_it_arises)
{
    static const char *const layouts[] = { "mb2", "pp2 dp2 mb2", "tp2 sp zero1 dp2" };
    struct model model = parity_gpt();
    struct parity_run run = { .steps = 1,
                              .optimizer = OPTIMIZER_SGD,
                              .rate = 1e30F,
                              .unclipped = true,
                              .seed = 3,
                              .after = expect_loss };
    struct parity_result result;
    parity_run(&model, layouts[_i], &run, &result);
    ck_assert(isfinite(result.loss[0]));
    parity_release(&result);
}
END_TEST

START_TEST(a_run_ends_at_the_smallest_loss_scale)
{
    struct ending ending = endings[_i];
    struct model model = parity_gpt();
    struct kernel_api kernels = overflowing(ending.bad_losses);
    struct parity_run run = run_of(ending.precision);
    struct parity_result result;
    run.kernels = &kernels;
    run.steps = 2;
    run.after = expect_ending;
    run.context = &ending;
    parity_run(&model, "tp2 dp2 mb1", &run, &result);
    parity_release(&result);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("precision");
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, values_in_16_bits_train_nearly_like_fp32, 0, 4);
    tcase_add_test(tc, a_step_that_overflows_is_skipped_on_all_ranks);
    tcase_add_test(tc, the_loss_scale_is_halved_and_training_continues);
    tcase_add_test(tc, only_the_overflowing_replica_skips_its_update);
    tcase_add_test(tc, a_replica_that_skips_its_update_still_averages);
    tcase_add_test(tc, differing_replicas_train_in_fp16_nearly_like_fp32);
    tcase_add_loop_test(tc, a_non_finite_loss_is_reported_by_the_stage_where_it_arises, 0, 3);
    tcase_add_loop_test(tc, a_run_ends_at_the_smallest_loss_scale, 0, LENGTH(endings));
    Suite *s = suite_create("exec/precision");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
