/* Ops on 16-bit arrays give the fp32 results for the same values, rounded once when written. */
#include "kernels/host/linear.h"
#include "kernels/host/round.h"
#include "kernels/host/stored.h"
#include "tests/kernels/numeric.h"
#include "tests/testing.h"

#include <string.h>

static struct numeric numeric;
static const enum dtype halves[] = { DTYPE_BF16, DTYPE_FP16 };

static void begin(void)
{
    numeric = numeric_begin(1);
}

static void end(void)
{
    numeric_end(&numeric);
}

static struct host_kernels kernels_of(enum dtype storage)
{
    return (struct host_kernels){ own_blas, storage };
}

static void pack(enum dtype storage, long n, const float *x, uint16_t *out)
{
    struct host_kernels kernels = kernels_of(storage);
    stored_pack(&kernels, &(struct pack){ n, x, out });
}

/* n random values in the storage type, and in fp32. */
static float *random_values(enum dtype storage, long n, uint16_t *stored)
{
    float *wide = numeric_floats(&numeric, n, 1);
    pack(storage, n, wide, stored);
    if (storage == DTYPE_BF16)
        bf16_unpack(n, stored, wide);
    else
        fp16_unpack(n, stored, wide);
    return wide;
}

START_TEST(results_of_an_op_are_rounded_once)
{
    enum { ROWS = 5, OUT = 7, IN = 33 };
    uint16_t x[ROWS * IN], weight[OUT * IN], bias[OUT], y[ROWS * OUT], wanted[ROWS * OUT];
    struct host_kernels kernels = kernels_of(halves[_i]);
    struct linear linear = { ROWS, OUT, IN, &own_blas };
    float exact[ROWS * OUT];
    const float *wide_x = random_values(halves[_i], ROWS * IN, x);
    const float *wide_weight = random_values(halves[_i], OUT * IN, weight);
    const float *wide_bias = random_values(halves[_i], OUT, bias);
    struct linear_forward args = { ROWS, OUT, IN, x, weight, bias, y, NULL };
    stored_linear_forward(&kernels, &args);
    linear_forward(&linear, wide_x, wide_weight, wide_bias, exact);
    pack(halves[_i], ROWS * OUT, exact, wanted);
    ck_assert_mem_eq(y, wanted, sizeof y);
}
END_TEST

/* Ops on packed qkv (queries, keys and values in one array) must leave the parts that they do not
 * process unchanged. */
START_TEST(values_that_an_op_does_not_change_keep_their_bits)
{
    enum { SEQ = 3, HEADS = 2, WIDTH = 4, QKV = SEQ * 3 * HEADS * WIDTH };
    struct attention attention = {
        .sequences = 1, .seq = SEQ, .heads = HEADS, .kv_heads = HEADS, .head_dim = WIDTH
    };
    uint16_t dcontext[SEQ * HEADS * WIDTH], dropped[HEADS * SEQ * SEQ], dqkv[QKV];
    struct host_kernels kernels = kernels_of(halves[_i]);
    random_values(halves[_i], SEQ * HEADS * WIDTH, dcontext);
    random_values(halves[_i], HEADS * SEQ * SEQ, dropped);
    memset(dqkv, 0x12, sizeof dqkv);
    struct context_backward args = { attention, dcontext, NULL, dropped, NULL, dqkv };
    stored_context_value_gradient(&kernels, &args);
    for (int i = 0; i < QKV; i++)
        ck_assert_int_eq(dqkv[i] == 0x1212, i / WIDTH % 3 != 2);
}
END_TEST

START_TEST(input_and_output_may_be_the_same_array)
{
    enum { ROWS = 3, WIDTH = 21 };
    uint16_t x[ROWS * WIDTH], scale[WIDTH], y[ROWS * WIDTH];
    float statistics[2][ROWS];
    struct host_kernels kernels = kernels_of(halves[_i]);
    random_values(halves[_i], ROWS * WIDTH, x);
    random_values(halves[_i], WIDTH, scale);
    struct norm_forward args = {
        { ROWS, WIDTH, 1e-5F }, NORM_RMS, x, scale, NULL, y, statistics[0]
    };
    stored_norm_forward(&kernels, &args);
    args.y = x;
    args.statistics = statistics[1];
    stored_norm_forward(&kernels, &args);
    ck_assert_mem_eq(x, y, sizeof x);
    ck_assert_mem_eq(statistics[0], statistics[1], sizeof statistics[0]);
}
END_TEST

/* The fp32 master weight has more digits than the stored 16-bit weight, which changes only when the
 * master has changed enough. */
START_TEST(an_update_stores_the_rounded_master)
{
    float master = 1, gradient = 1, scale = 1;
    uint16_t stored = 0, wanted;
    struct host_kernels kernels = kernels_of(halves[_i]);
    struct sgd_args args = { { 1e-5F, 0, 1 }, 1, &gradient, &scale, &master, &stored };
    for (int step = 0; step < 300; step++)
        stored_sgd(&kernels, &args);
    ck_assert_double_eq_tol((double)master, 0.997, 1e-5);
    pack(halves[_i], 1, &master, &wanted);
    ck_assert_int_eq(stored, wanted);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("stored");
    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_loop_test(tc, results_of_an_op_are_rounded_once, 0, 2);
    tcase_add_loop_test(tc, values_that_an_op_does_not_change_keep_their_bits, 0, 2);
    tcase_add_loop_test(tc, input_and_output_may_be_the_same_array, 0, 2);
    tcase_add_loop_test(tc, an_update_stores_the_rounded_master, 0, 2);
    Suite *s = suite_create("kernels/host/stored");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
