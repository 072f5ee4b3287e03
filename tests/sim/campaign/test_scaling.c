#include "sim/campaign/scaling.h"

#include "models/learning_curve.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

static const double gopher_flops = 5.76e23; /* Hoffmann et al. 2022, table 3 */
static const double gpt3_flops = 3.14e23;   /* Brown et al. 2020, table D.1 */

static const struct size_law *law_named(const char *name)
{
    for (int i = 0; i < num_size_laws; i++)
        if (strcmp(size_laws[i].name, name) == 0)
            return &size_laws[i];
    ck_abort_msg("no size law %s", name);
    return NULL;
}

/* --- Chinchilla ----------------------------------------------------------------------------- */

/* Hoffmann et al. 2022, tables 3 and A3: for each model size, the FLOPs at which it is optimal, and
 * its tokens. The rows of 67 B are omitted, because in approach 2 the FLOPs and tokens printed
 * beside 67 B belong to a model of 6.88e23 / (6 x 1.7e12) = 69 B. */
static const struct printed_row {
    double size, flops_1, tokens_1, flops_2, tokens_2;
} printed_rows[] = {
    { 400e6, 1.92e19, 8.0e9, 1.84e19, 7.7e9 },    { 1e9, 1.21e20, 20.2e9, 1.20e20, 20.0e9 },
    { 10e9, 1.23e22, 205.1e9, 1.32e22, 219.5e9 }, { 175e9, 3.85e24, 3.7e12, 4.54e24, 4.3e12 },
    { 280e9, 9.90e24, 5.9e12, 1.18e25, 7.1e12 },  { 520e9, 3.43e25, 11.0e12, 4.19e25, 13.4e12 },
    { 1e12, 1.27e26, 21.2e12, 1.59e26, 26.5e12 }, { 10e12, 1.30e28, 216.2e12, 1.75e28, 292e12 },
};

static void holds_row(const char *name, double size, double flops, double tokens)
{
    double ours = scaling_law_size(law_named(name), flops);
    ck_assert_double_eq_tol(ours / size, 1, 0.005);
    /* In both tables the tokens equal the FLOPs divided by 6 N, up to the rounding of printed
     * digits. */
    ck_assert_double_eq_tol(flops / (6 * ours) / tokens, 1, 0.02);
}

START_TEST(the_first_two_approaches_give_the_printed_tables)
{
    const struct printed_row *row = &printed_rows[_i];
    holds_row("chinchilla-1", row->size, row->flops_1, row->tokens_1);
    holds_row("chinchilla-2", row->size, row->flops_2, row->tokens_2);
}
END_TEST

/* The best size grows as a power of the FLOPs: 0.50, 0.49 and 0.46 for the three approaches (table
 * 2), and 0.73 for Kaplan's law. */
START_TEST(sizes_grow_by_the_printed_powers)
{
    static const struct {
        const char *name;
        double power;
    } rows[] = {
        { "chinchilla-1", 0.50 },
        { "chinchilla-2", 0.49 },
        { "chinchilla-3", 0.46 },
        { "kaplan", 0.73 },
    };
    for (int i = 0; i < LENGTH(rows); i++) {
        const struct size_law *law = law_named(rows[i].name);
        double power = log10(scaling_law_size(law, 1e24) / scaling_law_size(law, 1e23));
        ck_assert_double_eq_tol(power, rows[i].power, 0.005);
    }
}
END_TEST

/* For Gopher's FLOPs C the three approaches recommend N = 67 B on 1.5 T tokens (table 3), 63 B
 * (figure 3; its 1.4 T tokens are not C / 6 N) and 40 B (figure 4). Gopher had 280 B on 300 B
 * tokens. */
START_TEST(the_best_sizes_for_gophers_budget_are_67_63_or_40_billion)
{
    double one = scaling_law_size(law_named("chinchilla-1"), gopher_flops);
    ck_assert_double_eq_tol(one, 67e9, 1e9);
    ck_assert_double_eq_tol(gopher_flops / (6 * one), 1.4e12, 0.05e12);
    ck_assert_double_eq_tol(scaling_law_size(law_named("chinchilla-2"), gopher_flops), 63e9, 1e9);
    ck_assert_double_eq_tol(scaling_law_size(law_named("chinchilla-3"), gopher_flops), 40e9, 0.5e9);
}
END_TEST

/* "Somewhere between 40 and 70 billion parameters" (Hoffmann et al. 2022, section 4); the test also
 * checks the FLOPs of GPT-3 (175 B on 300 B tokens). */
START_TEST(the_corrected_fit_agrees_with_the_first_two_approaches)
{
    const struct loss_law *law = &loss_laws[LAW_CORRECTED];
    double size = scaling_best_size(law, gopher_flops / 6);
    ck_assert_double_eq_tol(size, 70e9, 2.5e9);
    /* Besiroglu et al. 2024: the best size has about 20 tokens per parameter, and grows as the
     * power 0.513 of the FLOPs. */
    ck_assert_double_eq_tol(gopher_flops / 6 / size / size, 20, 2);
    double power = law->token_power / (law->size_power + law->token_power);
    ck_assert_double_eq_tol(power, 0.513, 0.0005);
    double gpt3 = scaling_best_size(law, gpt3_flops / 6);
    double first = scaling_law_size(law_named("chinchilla-1"), gpt3_flops);
    ck_assert_double_eq_tol(gpt3 / first, 1, 0.06);
}
END_TEST

/* --- Kaplan --------------------------------------------------------------------------------- */

/* Kaplan et al. 2020, section 6.3: around 1e4 PF-days a model of about 1e12 parameters is best. */
START_TEST(kaplans_best_size_for_1e4_petaflop_days_is_1e12)
{
    double size = scaling_law_size(law_named("kaplan"), 1e4 * 8.64e19);
    ck_assert_double_eq_tol(size, 1.08e12, 0.01e12);
    ck_assert_double_eq(scaling_law_size(law_named("kaplan"), 8.64e19), 1.3e9);
}
END_TEST

/* Kaplan et al. 2020, appendix A (cited from memory): N = 1.3e9 C^0.73 parameters, in batches of
 * 2.0e6 C^0.24 tokens for 5.4e3 C^0.03 steps; training with that batch takes twice the minimal
 * FLOPs, and reads 2e10 C^0.27 tokens. */
START_TEST(kaplans_tokens_are_the_printed_batches_times_steps)
{
    const struct size_law *law = law_named("kaplan");
    for (double pf_days = 1; pf_days < 1e5; pf_days *= 10) {
        double flops = pf_days * 8.64e19, size = scaling_law_size(law, flops);
        double printed = 2.0e6 * pow(pf_days, 0.24) * 5.4e3 * pow(pf_days, 0.03);
        /* tolerance for the rounding of 2.0 and 5.4 */
        ck_assert_double_eq_tol(flops / (6 * size) / printed, 1, 0.034);
        double read = 2 * flops / (6 * size);
        /* tolerance for a number printed with one digit */
        ck_assert_double_eq_tol(read / (2e10 * pow(pf_days, 0.27)), 1, 0.25);
    }
}
END_TEST

/* --- losses --------------------------------------------------------------------------------- */

/* The loss law of `design` and the learning curve of time-to-accuracy have the same formula; the
 * curve's constants are rounded. */
START_TEST(the_published_law_is_the_learning_curve)
{
    struct model model;
    struct err err = { 0 };
    ck_assert(model_load("llama3-70b", &model, &err));
    struct training training = { model_parameters(&model), 1.4e12, 0 };
    ck_assert_double_eq_tol(scaling_loss(&loss_laws[LAW_CHINCHILLA], training),
                            learning_curve_loss(&model, 1.4e12), 0.02);
}
END_TEST

/* The loss of Chinchilla (70 B parameters, 1.4 T tokens) by the corrected constants (Besiroglu et
 * al. 2024) is 1.8172 + 482.01 / 70e9^0.3478 + 2085.43 / 1.4e12^0.3658 = 1.8172 + 0.0815 + 0.0752.
 * By the fit of Hoffmann et al. 2022 it is 1.6934 + 0.0852 + 0.1423. */
START_TEST(the_loss_interval_contains_both_fits)
{
    struct training chinchilla = { 70e9, 1.4e12, 0 };
    double loss = scaling_loss(&loss_laws[LAW_CORRECTED], chinchilla);
    struct loss_interval interval = scaling_loss_interval(&loss_laws[LAW_CORRECTED], chinchilla);
    ck_assert_double_eq_tol(loss, 1.9739, 0.0005);
    ck_assert_double_le(interval.low, scaling_loss(&loss_laws[LAW_CHINCHILLA], chinchilla));
    ck_assert_double_eq_tol(interval.low, 1.9209, 0.0005);
    ck_assert_double_eq_tol(interval.high, loss + 1.6449 * 0.03, 1e-12);
    interval = scaling_loss_interval(&loss_laws[LAW_C4], chinchilla);
    ck_assert_double_ge(interval.high, scaling_loss(&loss_laws[LAW_C4], chinchilla));
}
END_TEST

/* At the best size one percent more parameters and one percent fewer tokens change the loss
 * equally. */
START_TEST(the_closed_form_minimises_the_loss)
{
    const struct loss_law *law = &loss_laws[_i];
    for (double flops = 1e18; flops < 1e28; flops *= 37) {
        struct training best = scaling_best(law, (struct scaling_budget){ .flops = flops });
        ck_assert_double_eq_tol(best.parameters / scaling_best_size(law, flops / 6), 1, 1e-6);
        ck_assert_double_eq_tol(6 * best.parameters * best.tokens / flops, 1, 1e-12);
        ck_assert_double_eq_tol(scaling_size_for_tokens(law, best.tokens) / best.parameters, 1,
                                1e-6);
    }
}
END_TEST

/* --- repeats -------------------------------------------------------------------------------- */

/* Muennighoff et al. 2023, section 3.1: R* repetitions of the data are worth 1 - 1/e times as many
 * new tokens; any number of repetitions is worth at most R* times the unique tokens. */
START_TEST(each_repeat_is_worth_less_than_the_one_before)
{
    struct training once = { 1e9, 1e9, 1e9 }, twice = { 1e9, 2e9, 1e9 };
    struct training lasting = { 1e9, 16.387756e9, 1e9 }, forever = { 1e9, 1e15, 1e9 };
    ck_assert_double_eq(scaling_effective_tokens(once), 1e9);
    ck_assert_double_gt(scaling_effective_tokens(twice), 1.96e9);
    ck_assert_double_lt(scaling_effective_tokens(twice), 2e9);
    ck_assert_double_eq_tol(scaling_effective_tokens(lasting) / 1e9, 1 + 15.387756 * (1 - exp(-1)),
                            1e-9);
    ck_assert_double_eq_tol(scaling_effective_tokens(forever), 16.387756e9, 1);
}
END_TEST

/* Muennighoff et al. 2023, figure 1 and section 6: a model of 8.67 B parameters ends at a loss 0.5
 * % higher after four epochs of 44 B tokens than after one epoch of 178 B. */
START_TEST(four_epochs_are_nearly_as_good_as_unique_tokens)
{
    const struct loss_law *law = &loss_laws[LAW_C4];
    struct training four = { 8.67e9, 178e9, 44.5e9 }, one = { 8.67e9, 178e9, 0 };
    ck_assert_double_eq_tol(scaling_loss(law, four) / scaling_loss(law, one), 1.005, 0.002);
}
END_TEST

/* Muennighoff et al. 2023, figure 1: with 9.3e21 FLOPs and 25 B unique tokens, a model of 6.34 B
 * parameters was trained on 242 B tokens (9.7 epochs). Chinchilla's law recommends 8.67 B on 178 B.
 * Our minimum of the loss law is at 6.81 B with these repeats, and at 8.89 B without. */
START_TEST(with_few_unique_tokens_the_best_model_is_smaller)
{
    const struct loss_law *law = &loss_laws[LAW_C4];
    struct scaling_budget budget = { .flops = 9.3e21 };
    struct training plain = scaling_best(law, budget);
    budget.unique = 25e9;
    struct training repeated = scaling_best(law, budget);
    ck_assert_double_eq_tol(plain.parameters, 8.67e9, 0.03 * 8.67e9);
    ck_assert_double_eq_tol(repeated.parameters, 6.34e9, 0.08 * 6.34e9);
    ck_assert_double_eq_tol(repeated.tokens, 242e9, 0.08 * 242e9);
    budget.unique = 1e15; /* no limit on unique tokens */
    ck_assert_double_eq_tol(scaling_best(law, budget).parameters / plain.parameters, 1, 1e-6);
}
END_TEST

/* --- serving -------------------------------------------------------------------------------- */

/* Sardana et al. 2024, figure 1: a 13 B model that serves 2 T tokens takes 1.7e22 FLOPs (17 %) more
 * than an equally good 7 B model. The paper's loss law has A = 406.4, B = 410.7, alpha = 0.336,
 * beta = 0.283, E = 1.69. */
START_TEST(the_best_size_for_serving_2e12_tokens_is_7_billion)
{
    static const struct loss_law law = { .least = 1.69,
                                         .of_size = 406.4,
                                         .of_tokens = 410.7,
                                         .size_power = 0.336,
                                         .token_power = 0.283 };
    double served = 2e12, tokens = 0;
    for (double low = 1e9, high = 1e14; high / low > 1 + 1e-12;) {
        tokens = sqrt(low * high);
        *(scaling_size_for_tokens(&law, tokens) < 13e9 ? &low : &high) = tokens;
    }
    double loss = scaling_loss(&law, (struct training){ 13e9, tokens, 0 });
    double whole = 6 * 13e9 * tokens + 2 * 13e9 * served;
    struct scaling_budget budget = { .served = served };
    struct training best = { 0 };
    for (double low = whole / 2, high = whole; high / low > 1 + 1e-12;) {
        budget.flops = sqrt(low * high);
        best = scaling_best(&law, budget);
        *(scaling_loss(&law, best) > loss ? &low : &high) = budget.flops;
    }
    ck_assert_double_eq_tol(best.parameters, 7e9, 0.1e9);
    ck_assert_double_eq_tol(whole - budget.flops, 1.7e22, 0.05e22);
    ck_assert_double_eq_tol(1 - budget.flops / whole, 0.17, 0.005);
}
END_TEST

/* At the best size, the elasticity of the loss to parameters divided by that to tokens is 1 + T /
 * (3 D): the FLOPs of training on D tokens and serving T, divided by those of training. */
START_TEST(serving_shifts_the_best_size_by_its_share_of_the_flops)
{
    const struct loss_law *law = &loss_laws[LAW_CORRECTED];
    struct scaling_budget budget = { .flops = 1e24, .served = 3e12 };
    struct training best = scaling_best(law, budget);
    double of_size = law->size_power * law->of_size / pow(best.parameters, law->size_power);
    double of_tokens = law->token_power * law->of_tokens / pow(best.tokens, law->token_power);
    double expected = 1 + budget.served / (3 * best.tokens);
    ck_assert_double_eq_tol(of_size / of_tokens, expected, 1e-4 * expected);
    double flops = 6 * best.parameters * best.tokens + 2 * best.parameters * budget.served;
    ck_assert_double_eq_tol(flops / budget.flops, 1, 1e-12);
}
END_TEST

START_TEST(a_budget_used_up_by_serving_trains_nothing)
{
    struct scaling_budget budget = { .flops = 1e12, .served = 1e13 };
    ck_assert_double_eq(scaling_best(&loss_laws[LAW_CORRECTED], budget).tokens, 0);
}
END_TEST

/* DeepSeek LLM trained 7 B on 2 T tokens in batches of 2304 x 4096 = 9.4 M tokens, and 67 B in
 * batches of 4608 x 4096 = 18.9 M. */
START_TEST(batches_agree_with_those_of_deepseek)
{
    ck_assert_double_eq_tol(scaling_batch_tokens(6 * 7e9 * 2e12), 9.4e6, 0.05 * 9.4e6);
    ck_assert_double_eq_tol(scaling_batch_tokens(6 * 67e9 * 2e12), 18.9e6, 0.05 * 18.9e6);
}
END_TEST

static Suite *scaling_suite(void)
{
    Suite *suite = suite_create("scaling");
    TCase *tcase = tcase_create("scaling");
    tcase_add_loop_test(tcase, the_first_two_approaches_give_the_printed_tables, 0,
                        LENGTH(printed_rows));
    tcase_add_test(tcase, sizes_grow_by_the_printed_powers);
    tcase_add_test(tcase, the_best_sizes_for_gophers_budget_are_67_63_or_40_billion);
    tcase_add_test(tcase, the_corrected_fit_agrees_with_the_first_two_approaches);
    tcase_add_test(tcase, kaplans_tokens_are_the_printed_batches_times_steps);
    tcase_add_test(tcase, kaplans_best_size_for_1e4_petaflop_days_is_1e12);
    tcase_add_test(tcase, the_published_law_is_the_learning_curve);
    tcase_add_test(tcase, the_loss_interval_contains_both_fits);
    tcase_add_loop_test(tcase, the_closed_form_minimises_the_loss, 0, NUM_LOSS_LAWS);
    tcase_add_test(tcase, each_repeat_is_worth_less_than_the_one_before);
    tcase_add_test(tcase, four_epochs_are_nearly_as_good_as_unique_tokens);
    tcase_add_test(tcase, with_few_unique_tokens_the_best_model_is_smaller);
    tcase_add_test(tcase, the_best_size_for_serving_2e12_tokens_is_7_billion);
    tcase_add_test(tcase, serving_shifts_the_best_size_by_its_share_of_the_flops);
    tcase_add_test(tcase, a_budget_used_up_by_serving_trains_nothing);
    tcase_add_test(tcase, batches_agree_with_those_of_deepseek);
    suite_add_tcase(suite, tcase);
    return suite;
}
TEST_MAIN(scaling_suite)
