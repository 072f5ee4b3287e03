/* Every layout trains the same model: one rank alone is the reference. */
#include "tests/parity.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

static const char *const layouts[] = {
    "dp2",
    "dp4 mb2",
    "tp2",
    "tp2 sp",
    "tp4 sp",
    "pp2",
    "pp4",
    "pp2 vpp2",
    "pp2 schedule=gpipe",
    "pp2 schedule=zb-h1",
    "dp2 zero1",
    "dp2 zero2",
    "dp2 zero3",
    "recompute=full",
    "recompute=selective",
    "recompute=block:1 mb2",
    "tp2 sp pp2 dp2 zero1",
    "tp2 pp2 recompute=full",
    "tp2 sp overlap=tp",
    "pp2 dp2 zero1 recompute=selective",
    "pp4 stages=1,1,1,1",
    "pp2 stages=1,3",
    "tp2 sp pp2 schedule=zb-h1",
    "dp2 zero3 tp2 recompute=full",
};
enum { NUM_LAYOUTS = sizeof layouts / sizeof *layouts, NUM_MODELS = 2 };

START_TEST(a_layout_trains_as_one_rank_does)
{
    struct model model = _i % NUM_MODELS ? parity_llama() : parity_gpt();
    const char *layout = layouts[_i / NUM_MODELS];
    struct parity_run run = { .steps = 3, .optimizer = OPTIMIZER_SGD, .rate = 0.5F, .seed = 7 };
    struct parity_result one, many;
    run.unfused = _i % 4 >= 2;
    if (_i % NUM_MODELS && strstr(layout, "tp4"))
        return;
    parity_run(&model, "mb1", &run, &one);
    parity_run(&model, layout, &run, &many);
    for (int step = 0; step < run.steps; step++) {
        ck_assert_msg(fabs(many.loss[step] / one.loss[step] - 1) < 1e-5,
                      "%s, step %d: loss %.9g, alone %.9g", layout, step + 1, many.loss[step],
                      one.loss[step]);
        ck_assert_msg(fabs(many.gradient_norm[step] / one.gradient_norm[step] - 1) < 1e-4,
                      "%s, step %d: norm %.9g, alone %.9g", layout, step + 1,
                      many.gradient_norm[step], one.gradient_norm[step]);
    }
    ck_assert_msg(parity_distance(&one, &many) < 1e-5, "%s: weights differ by %.3g", layout,
                  parity_distance(&one, &many));
    parity_release(&one);
    parity_release(&many);
}
END_TEST

static Suite *suite(void)
{
    TCase *cases = tcase_create("parity");
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, a_layout_trains_as_one_rank_does, 0, NUM_LAYOUTS * NUM_MODELS);
    Suite *s = suite_create("exec/parity");
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
