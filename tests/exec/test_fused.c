/* An op list (sequence of operations) with fused ops must train like the list of separate ops. */
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>

/* Fusions for which the host and the GPU have a kernel. */
static const unsigned fusions[] = {
    1u << FUSION_WGRAD_BIAS,
    1u << FUSION_GEMM_GELU,
    1u << FUSION_RESIDUAL_NORM,
    1u << FUSION_WGRAD_BIAS | FOLDING_FUSIONS,
};
static const char *const layouts[] = {
    "mb1", "mb2 recompute=full", "tp2 sp", "tp2 overlap=tp", "pp2 schedule=zb-h1", "dp2 zero3",
};
static const int types[] = { PRECISION_FP32, PRECISION_BF16, PRECISION_FP16 };
enum { NUM_SETS = LENGTH(fusions), NUM_LAYOUTS = LENGTH(layouts), NUM_TYPES = LENGTH(types) };

/* Widths that are no multiple of 16 bytes. */
static struct model odd_gpt(void)
{
    struct model model = parity_gpt();
    model.ffn = 74;
    model.vocab = 206;
    model.dropout = 0.1;
    return model;
}

static struct parity_result train(const struct model *model, const char *layout, int precision,
                                  unsigned fused)
{
    return parity_run_lists(model, layout, precision, (struct layer_options){ .fusions = fused });
}

/* In fp32 results are equal. In 16 bits a fused kernel rounds less often than separate ops do. So
 * weights trained with fused ops must be at least as close to the fp32 weights as weights trained
 * with separate ops. */
static void check_set(const struct parity_result *exact, const struct parity_result *separate,
                      const struct parity_result *fused, const char *what)
{
    double apart = parity_distance(exact, separate), distance = parity_distance(exact, fused);
    ck_assert_msg(
        distance <= 1.3 * apart + 1e-6,
        "%s: weights differ from fp32's by %.3g with fused ops, and by %.3g with separate ops",
        what, distance, apart);
    double loss = fabs(separate->loss[1] - exact->loss[1]);
    ck_assert_double_eq_tol(fused->loss[1], exact->loss[1], 2 * loss + 1e-4 * exact->loss[1]);
}

START_TEST(a_fused_list_trains_like_its_separate_ops)
{
    if (is_spared(_i, 5))
        return;
    int precision = types[_i % NUM_TYPES];
    const char *layout = layouts[_i / NUM_TYPES];
    struct model model = _i % 2 ? parity_gpt() : odd_gpt();
    struct parity_result exact = train(&model, layout, PRECISION_FP32, 0);
    struct parity_result separate = train(&model, layout, precision, 0);
    for (int set = 0; set < NUM_SETS; set++) {
        char what[80];
        struct parity_result fused = train(&model, layout, precision, fusions[set]);
        snprintf(what, sizeof what, "%s, set %d", layout, set);
        check_set(&exact, &separate, &fused, what);
        parity_release(&fused);
    }
    parity_release(&exact);
    parity_release(&separate);
}
END_TEST

static Suite *suite(void)
{
    TCase *cases = tcase_create("fused");
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, a_fused_list_trains_like_its_separate_ops, 0,
                        NUM_LAYOUTS * NUM_TYPES);
    Suite *s = suite_create("exec/fused");
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
