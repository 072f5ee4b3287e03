/* Tests a head that computes logits in row blocks (blocks of tokens): loss and gradients equal
 * those of a head that computes all logits at once. */
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include <math.h>

/* The largest number of rows in a block. With these limits the 16 rows of a sequence are divided
 * into blocks of one row, equal blocks, or unequal blocks, or are one block. */
static const int rows[] = { 1, 5, 8, 15, 16, 1000 };
static const char *const layouts[] = {
    "mb1",
    "mb2",
    "tp2",
    "tp2 sp overlap=tp",
    "tp2 sp mb2 recompute=full",
    "dp2 zero3",
    "pp2 dp2 mb1 zero1",
    "pp2 schedule=gpipe",
};
static const int types[] = { PRECISION_FP32, PRECISION_BF16, PRECISION_FP16 };
enum { NUM_ROWS = LENGTH(rows), NUM_LAYOUTS = LENGTH(layouts), NUM_TYPES = LENGTH(types) };

/* A model with a vocabulary that needs padding. */
static struct model model_of(bool is_tied)
{
    struct model model = parity_gpt();
    model.vocab = 203;
    model.layers = 2;
    model.tied = is_tied;
    return model;
}

static struct parity_result train(const struct model *model, const char *layout, int precision,
                                  double logits_rows)
{
    return parity_run_lists(model, layout, precision,
                            (struct layer_options){ .logits_rows = logits_rows });
}

/* Each logit is the same sum with and without blocks. Weight gradients are added up in fp32 block
 * by block, in another order. With 16-bit storage a value may round in the other direction, so the
 * second step may differ by roundings. */
START_TEST(logits_in_row_blocks_train_like_logits_at_once)
{
    if (is_spared(_i, 5))
        return;
    const char *layout = layouts[_i / NUM_ROWS];
    int precision = types[_i % NUM_TYPES];
    struct model model = model_of(_i % 2);
    double apart = precision == PRECISION_FP32 ? 1e-5 : 2e-3;
    struct parity_result once = train(&model, layout, precision, 0);
    struct parity_result runs = train(&model, layout, precision, rows[_i % NUM_ROWS]);
    ck_assert_msg(fabs(runs.loss[0] / once.loss[0] - 1) < 1e-6,
                  "%s, %d rows: the loss is %.9g, but %.9g without blocks", layout,
                  rows[_i % NUM_ROWS], runs.loss[0], once.loss[0]);
    ck_assert_double_eq_tol(runs.gradient_norm[0], once.gradient_norm[0],
                            1e-5 * once.gradient_norm[0]);
    ck_assert_msg(parity_distance(&once, &runs) < apart, "%s, %d rows: weights differ by %.3g",
                  layout, rows[_i % NUM_ROWS], parity_distance(&once, &runs));
    parity_release(&once);
    parity_release(&runs);
}
END_TEST

static Suite *suite(void)
{
    TCase *cases = tcase_create("head");
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, logits_in_row_blocks_train_like_logits_at_once, 0,
                        NUM_LAYOUTS * NUM_ROWS);
    Suite *s = suite_create("exec/ops/head");
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
