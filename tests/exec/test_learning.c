/* not under asan: the test checks how fast a loss falls, which does not depend on sanitizers */
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include <math.h>

enum { STEPS = TURNS(120), COMPARED = 20, LAST = STEPS / 6 };

static const char *const layouts[] = { "mb4", "tp2 sp dp2 zero3 mb4", "pp2 vpp2 mb2" };
enum { NUM_LAYOUTS = LENGTH(layouts) };

static double mean_of_last(const double *losses)
{
    double sum = 0;
    for (int step = STEPS - LAST; step < STEPS; step++)
        sum += losses[step];
    return sum / LAST;
}

/* The loss, in nats per byte, of a model that knows only the frequency of each byte. */
static double entropy_of_bytes(const struct token_source *text)
{
    double counts[256] = { 0 }, sum = 0;
    for (size_t i = 0; i < text->num_bytes; i++)
        counts[text->bytes[i]]++;
    for (int byte = 0; byte < 256; byte++)
        if (counts[byte] > 0)
            sum -= counts[byte] * log(counts[byte] / (double)text->num_bytes);
    return sum / (double)text->num_bytes;
}

/* This model has 62,000 parameters. */
static struct model small_model(void)
{
    struct model model = parity_gpt();
    model.vocab = 256;
    model.seq = model.max_positions = 32;
    return model;
}

static void check_alike(const struct parity_result *one, const struct parity_result *many,
                        const char *layout)
{
    parity_check_losses(one, many, COMPARED, 1e-4, layout);
    ck_assert_msg(fabs(mean_of_last(many->loss) / mean_of_last(one->loss) - 1) < 0.005,
                  "%s: the final loss is %.6g, but %.6g on one rank", layout,
                  mean_of_last(many->loss), mean_of_last(one->loss));
}

START_TEST(all_layouts_learn_a_text_equally)
{
    struct model model = small_model();
    struct token_source text = parity_text(&model);
    struct parity_run run = {
        .steps = STEPS, .optimizer = OPTIMIZER_ADAM, .rate = 3e-3F, .seed = 7, .tokens = &text
    };
    struct parity_result results[NUM_LAYOUTS];
    int num_layouts = is_campaign() ? NUM_LAYOUTS : 2;
    for (int i = 0; i < num_layouts; i++) {
        parity_run(&model, layouts[i], &run, &results[i]);
        check_alike(&results[0], &results[i], layouts[i]);
    }
    ck_assert_double_eq_tol(results[0].loss[0], log(256), 0.1);
    ck_assert_double_lt(mean_of_last(results[0].loss), log(256) - 2);
    if (STEPS == 120) /* with sanitizers the test runs too few steps for this */
        ck_assert_double_lt(mean_of_last(results[0].loss), entropy_of_bytes(&text));
    for (int i = 0; i < num_layouts; i++)
        parity_release(&results[i]);
    token_source_close(&text);
}
END_TEST

/* --- gradients ------------------------------------------------------------------------------ */

/* A small step of plain gradient descent, w1 = w0 - rate g0, lowers the loss of the same tokens by
 * the integral of the gradient along the step. By the trapezoidal rule this integral is rate (g0 +
 * g1) g0 / 2, where g1 is the gradient at w1. To first order in the rate, the product g0 g1 is the
 * mean of both squared norms, so the loss falls by rate (3 |g0|^2 + |g1|^2) / 4. This holds only if
 * the backward is the derivative of the forward. */
static const struct {
    bool is_llama;
    double dropout;
    bool unfused;
    const char *layout;
} descents[] = {
    { false, 0, false, "mb4" },
    { false, 0.3, false, "mb4" },
    { false, 0.3, true, "mb4 recompute=full" },
    { false, 0.3, false, "mb4 recompute=selective" },
    { true, 0, false, "mb4" },
    { true, 0.3, true, "mb4" },
};

static bool descend(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct step_result first, second;
    if (!rank_step(rank, 1, NULL, &first, err) || !rank_step(rank, 1, NULL, &second, err))
        return false;
    double tokens = 8 * 16; /* tokens per step of the models in tests/exec/parity.h */
    double fall = (first.loss - second.loss) / tokens;
    double expected =
        (double)run->rate * (3 * pow(first.gradient_norm, 2) + pow(second.gradient_norm, 2)) / 4;
    return fabs(fall / expected - 1) < 0.01 ||
           err_set(err, ERR_INPUT, "loss", "falls by %.6g, expected %.6g", fall, expected);
}

START_TEST(the_loss_falls_by_the_rate_times_the_squared_gradient)
{
    struct model model = descents[_i].is_llama ? parity_llama() : parity_gpt();
    struct parity_result none;
    model.dropout = descents[_i].dropout;
    parity_run(&model, descents[_i].layout,
               &(struct parity_run){ .optimizer = OPTIMIZER_SGD,
                                     .rate = 1e-3F,
                                     .unclipped = true,
                                     .unfused = descents[_i].unfused,
                                     .seed = 5,
                                     .before = descend },
               &none);
    parity_release(&none);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("learning");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, all_layouts_learn_a_text_equally);
    tcase_add_loop_test(tc, the_loss_falls_by_the_rate_times_the_squared_gradient, 0,
                        LENGTH(descents));
    Suite *s = suite_create("exec/learning");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
