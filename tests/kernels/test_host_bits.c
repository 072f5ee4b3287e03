/* Checks that ops give the same bits with every compiler, sanitizer and instruction set: every
 * build variant runs this test. Inputs are made without libm, and products use own_blas. */
#include "kernels/host/activation.h"
#include "kernels/host/attention.h"
#include "kernels/host/cross_entropy.h"
#include "kernels/host/linear.h"
#include "kernels/host/norm.h"
#include "kernels/host/optimizer.h"
#include "kernels/host/residual.h"
#include "kernels/host/round.h"
#include "tests/testing.h"

#include <stdlib.h>
#include <string.h>

/* Sizes that are no multiple of a vector's length. */
enum { ROWS = 37, WIDTH = 61, N = ROWS * WIDTH, ROOM = 64 * 1024 };

/* Arrays that ops read (a, b, w) and write (y, z, u), each ROOM long. */
static float *a, *b, *w, *y, *z, *u;
static uint8_t *keeps;

/* Inputs in [-4, 4), multiples of 2^-20. */
static float *inputs(uint16_t op)
{
    float *x = malloc(sizeof *x * ROOM);
    uint32_t *words = malloc(sizeof *words * ROOM);
    ck_assert(x && words);
    draw_words(&(struct draw){ .seed = 17, .op = op }, 0, ROOM, words);
    for (long i = 0; i < ROOM; i++)
        x[i] = (float)((int)(words[i] >> 9) - (1 << 22)) * 0x1p-20F;
    free(words);
    return x;
}

static void begin(void)
{
    a = inputs(1), b = inputs(2), w = inputs(3), y = inputs(4), z = inputs(5), u = inputs(6);
    keeps = calloc(ROOM, 1);
    ck_assert_ptr_nonnull(keeps);
}

static void end(void)
{
    free(a), free(b), free(w), free(y), free(z), free(u), free(keeps);
}

static void run_linear(void)
{
    const struct linear linear = { ROWS, WIDTH, 257, &own_blas };
    linear_forward(&linear, a, b, w, y);
    linear_input_gradient(&linear, y, b, z);
    linear_weight_gradient(&linear, y, a, u);
    linear_bias_gradient(ROWS, WIDTH, y, u);
}

static const struct attention attention = {
    .sequences = 1,
    .seq = 135,
    .heads = 4,
    .kv_heads = 2,
    .head_dim = 10,
    .blas = &own_blas,
    .dropout = { .dropout = 0.125, .draw = { .seed = 3 }, .model_heads = 4 },
};

static void run_flash_attention(void)
{
    float *scratch = malloc(sizeof *scratch * (size_t)flash_attention_scratch(&attention));
    ck_assert_ptr_nonnull(scratch);
    flash_attention_forward(&attention, a, y, z, scratch);
    flash_attention_backward(&attention, b, a, y, z, u, scratch);
    free(scratch);
}

static void run_softmax(void)
{
    struct attention small = attention;
    small.seq = 53;
    attention_softmax(&small, a, y, keeps, z);
    attention_softmax_backward(&small, b, y, keeps, u);
}

static void run_norms(void)
{
    const struct norm norm = { ROWS, WIDTH, 1e-5F };
    layer_norm_forward(&norm, a, w, b, y, y + N, y + N + ROWS);
    layer_norm_backward(&norm, b, a, w, y + N, y + N + ROWS, z, z + N, z + N + WIDTH);
    rms_norm_forward(&norm, a, w, u, u + N);
    rms_norm_backward(&norm, b, a, w, u + N, u + 2 * N, u + 3 * N);
}

static void run_activations(void)
{
    for (int kind = ACTIVATION_GELU; kind <= ACTIVATION_GEGLU; kind++) {
        struct activation_shape shape = { (enum activation_kind)kind, ROWS, WIDTH };
        activation_forward(&shape, a, w, y + kind * N);
        activation_backward(&shape, b, a, w, z + 2 * kind * N);
    }
}

static void run_residual(void)
{
    const struct residual residual = {
        .rows = ROWS, .width = WIDTH, .dropout = 0.1, .draw = { .seed = 8 }, .first_row = 5
    };
    residual_forward(&residual, a, w, b, keeps, y);
    residual_backward(&residual, y, keeps, z);
}

static void run_cross_entropy(void)
{
    const struct cross_entropy loss = { ROWS, WIDTH, 100, 150 };
    int64_t targets[ROWS];
    for (int i = 0; i < ROWS; i++)
        targets[i] = 4 * i;
    cross_entropy_maxima(&loss, a, y);
    cross_entropy_sums(&loss, a, targets, y, z);
    cross_entropy_gradient(&loss, a, targets, y, z, 0.25F, u);
}

static void run_optimizers(void)
{
    const struct adamw adamw = { 1e-2F, 0.1F, 1, 0.9F, 0.95F, 1e-8F, 1 };
    const struct momentum momentum = { 1e-2F, 0.1F, 0.5F, 0.9F };
    const struct sgd sgd = { 1e-2F, 0.1F, 0.5F };
    double squares = gradient_squares(N, a);
    for (long i = 0; i < N; i++)
        w[i] = w[i] < 0 ? -w[i] : w[i];
    adamw_update(&adamw, N, a, z, w, y);
    momentum_update(&momentum, N, a, z, u);
    sgd_update(&sgd, N, a, b);
    memcpy(z, &squares, sizeof squares);
}

static void run_round(void)
{
    memcpy(y, a, N * sizeof *y);
    memcpy(z, a, N * sizeof *z);
    bf16_round(N, y);
    fp16_round(N, z);
}

/* FNV-1a hash of the written bytes. */
static uint64_t hash(uint64_t before, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        before = (before ^ at[i]) * 0x100000001b3u;
    return before;
}

static const struct {
    const char *name;
    void (*run)(void);
    uint64_t hash;
} ops[] = {
    { "linear", run_linear, 0x89fd78925e9de198 },
    { "flash attention", run_flash_attention, 0x57853d7e49b415b4 },
    { "softmax", run_softmax, 0x71eaebab128288ac },
    { "norms", run_norms, 0xa249c29e513f62c2 },
    { "activations", run_activations, 0x0857e2a733088d2b },
    { "residual", run_residual, 0x3f7a7cc4b73eec58 },
    { "cross-entropy", run_cross_entropy, 0x702672e42886c814 },
    { "optimizers", run_optimizers, 0x6b1cb5291f25387b },
    { "round", run_round, 0x96c18d08573ec863 },
};
enum { NUM_OPS = LENGTH(ops) };

/* A change of an op's arithmetic changes its hash. The commit that changes it must update this
 * table. */
START_TEST(every_build_gives_the_same_bits)
{
    uint64_t got = 0xcbf29ce484222325u;
    ops[_i].run();
    got = hash(got, y, sizeof *y * ROOM);
    got = hash(got, z, sizeof *z * ROOM);
    got = hash(got, u, sizeof *u * ROOM);
    got = hash(got, keeps, ROOM);
    ck_assert_msg(got == ops[_i].hash, "%s: the hash of the results is 0x%016llx", ops[_i].name,
                  (unsigned long long)got);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("host_bits");
    TCase *tests = tcase_create("host_bits");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_loop_test(tests, every_build_gives_the_same_bits, 0, NUM_OPS);
    suite_add_tcase(s, tests);
    return s;
}

TEST_MAIN(suite)
