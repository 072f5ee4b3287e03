/* Tests that a run gives the same bits each time, with and without recompute. */
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include <stdio.h>

static const char *const layouts[] = {
    "mb2", "tp2 sp", "pp2 dp2 zero1 mb2", "dp2 zero3", "pp2 vpp2", "tp2 sp pp2",
};
enum { NUM_LAYOUTS = LENGTH(layouts) };

static struct parity_run run_of(void)
{
    return (struct parity_run){ .steps = 2,
                                .optimizer = OPTIMIZER_ADAM,
                                .rate = 0.01F,
                                .seed = 5,
                                .prefetch = 1,
                                .arena_bytes = 4 << 20 };
}

static struct model model_of(int i)
{
    struct model model = i % 2 ? parity_llama() : parity_gpt();
    model.layers = 8; /* recompute=full:2 needs chunks of at least two layers */
    model.dropout = 0.1;
    return model;
}

static void check_equal(const struct model *model, const char *a, const char *b,
                        struct parity_run first, struct parity_run second)
{
    struct parity_result one, other;
    parity_run(model, a, &first, &one);
    parity_run(model, b, &second, &other);
    ck_assert_msg(parity_is_equal(&one, &other, first.steps), "%s and %s give different bits", a,
                  b);
    parity_release(&one);
    parity_release(&other);
}

/* The second run pauses for a random time before each piece of work. */
START_TEST(repeated_runs_have_the_same_bits)
{
    if (is_spared(_i, 2))
        return;
    struct model model = model_of(_i);
    struct parity_run run = run_of(), delayed = run_of();
    delayed.delay_most_s = 50e-6;
    delayed.steps = run.steps = 1;
    check_equal(&model, layouts[_i], layouts[_i], run, delayed);
}
END_TEST

static const char *const recomputes[] = { "recompute=full", "recompute=selective",
                                          "recompute=block:1", "recompute=full:2",
                                          "recompute=op-selective" };
enum { NUM_RECOMPUTES = LENGTH(recomputes) };

/* With unfused attention, selective recompute frees the values of attention's core. */
START_TEST(recompute_changes_no_bit)
{
    if (is_spared(_i, 6))
        return;
    const char *layout = layouts[_i / NUM_RECOMPUTES];
    struct model model = model_of(_i / NUM_RECOMPUTES);
    struct parity_run run = run_of();
    char recomputed[100];
    run.unfused = true;
    snprintf(recomputed, sizeof recomputed, "%s %s", layout, recomputes[_i % NUM_RECOMPUTES]);
    check_equal(&model, layout, recomputed, run, run);
}
END_TEST

/* In the second run only one of the two stages recomputes the attention core: the first stage or
 * the second. */
START_TEST(recompute_of_some_stages_changes_no_bit)
{
    static const char *const sets[] = { "core_attn,none", "none,core_attn" };
    struct model model = model_of(0);
    struct parity_run run = run_of();
    char mixed[100];
    run.unfused = true;
    snprintf(mixed, sizeof mixed, "pp2 dp2 zero1 mb1 recompute=selective:%s", sets[_i]);
    check_equal(&model, "pp2 dp2 zero1 mb1", mixed, run, run);
}
END_TEST

/* If gradients are reduced layer by layer during the last backward, the sums are the same. Random
 * pauses before each piece of work would expose a reduction that does not wait for its gradients.
 */
START_TEST(overlapped_gradient_reductions_change_no_bit)
{
    static const char *const plans[] = { "dp2 mb1", "dp2 zero1 mb2", "dp2 tp2 sp mb1",
                                         "dp2 mb1 recompute=full" };
    struct model model = model_of(_i);
    struct parity_run run = run_of(), delayed = run_of();
    char beside[100];
    delayed.delay_most_s = 50e-6;
    snprintf(beside, sizeof beside, "%s overlap=grad", plans[_i]);
    check_equal(&model, plans[_i], beside, run, delayed);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("bitwise");
    tcase_set_tags(tc, THREADS);
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, repeated_runs_have_the_same_bits, 0, NUM_LAYOUTS);
    tcase_add_loop_test(tc, overlapped_gradient_reductions_change_no_bit, 0, 4);
    tcase_add_loop_test(tc, recompute_of_some_stages_changes_no_bit, 0, 2);
    tcase_add_loop_test(tc, recompute_changes_no_bit, 0, NUM_LAYOUTS * NUM_RECOMPUTES);
    Suite *s = suite_create("exec/bitwise");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
