/* Measures the host's ops on one core: FLOP/s of products and attention, bytes/s (by least traffic)
 * of other ops. Each is the best of several repeats. */
#include "base/clock.h"
#include "base/length.h"
#include "kernels/host/activation.h"
#include "kernels/host/attention.h"
#include "kernels/host/cross_entropy.h"
#include "kernels/host/linear.h"
#include "kernels/host/norm.h"
#include "kernels/host/optimizer.h"
#include "kernels/host/residual.h"
#include "kernels/host/rotary.h"
#include "kernels/host/round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 1024, HIDDEN = 512, FFN = 2048, VOCAB = 8192, SEQ = 256, HEADS = 8, TURNS = 20 };

/* Length of an array: the size of the largest op. */
enum { NUM_VALUES = 2 * TOKENS * FFN };

static float *a, *b, *c, *d, *weight;
static float **const arrays[] = { &a, &b, &c, &d, &weight };
static uint8_t *keeps;
static int64_t *ids;
static struct blas blas;
static struct attention attention = {
    .sequences = TOKENS / SEQ, .seq = SEQ, .heads = HEADS, .kv_heads = HEADS, .head_dim = 64
};

static const struct linear fc1 = { .rows = TOKENS, .out = FFN, .in = HIDDEN, .blas = &blas };
static const struct norm norm = { .rows = TOKENS, .width = HIDDEN, .epsilon = 1e-5F };
static const struct activation_shape gelu = { ACTIVATION_GELU, TOKENS, FFN };
static const struct activation_shape swiglu = { ACTIVATION_SWIGLU, TOKENS, FFN / 2 };
static const struct residual residual = {
    .rows = TOKENS, .width = HIDDEN, .dropout = 0.1, .draw = { .seed = 1 }
};
static const struct residual plain_residual = { .rows = TOKENS, .width = HIDDEN };
static const struct cross_entropy loss = { .rows = 256, .columns = VOCAB, .vocab = VOCAB };

static void run_forward(void)
{
    linear_forward(&fc1, a, weight, NULL, b);
}
static void run_input_gradient(void)
{
    linear_input_gradient(&fc1, b, weight, c);
}
static void run_weight_gradient(void)
{
    linear_weight_gradient(&fc1, b, a, weight);
}
static void run_bias_gradient(void)
{
    linear_bias_gradient(TOKENS, FFN, b, d);
}
static void run_flash_forward(void)
{
    flash_attention_forward(&attention, a, c, d, weight);
}
static void run_flash_backward(void)
{
    flash_attention_backward(&attention, c, a, c, d, b, weight);
}
static void run_scores(void)
{
    attention_scores(&attention, a, b);
}
static void run_softmax(void)
{
    attention_softmax(&attention, b, b, NULL, NULL);
}
static void run_softmax_backward(void)
{
    attention_softmax_backward(&attention, b, c, NULL, b);
}
static void run_layer_norm(void)
{
    layer_norm_forward(&norm, a, weight, weight, b, c, d);
}
static void run_layer_norm_backward(void)
{
    layer_norm_backward(&norm, b, a, weight, c, d, b, weight, weight + HIDDEN);
}
static void run_gelu(void)
{
    activation_forward(&gelu, a, weight, b);
}
static void run_gelu_backward(void)
{
    activation_backward(&gelu, b, a, weight, c);
}
static void run_swiglu(void)
{
    activation_forward(&swiglu, a, NULL, b);
}
static void run_swiglu_backward(void)
{
    activation_backward(&swiglu, b, a, NULL, c);
}
static void run_residual(void)
{
    residual_forward(&plain_residual, a, weight, b, NULL, c);
}
static void run_residual_dropout(void)
{
    residual_forward(&residual, a, weight, b, keeps, c);
}
static void run_maxima(void)
{
    cross_entropy_maxima(&loss, a, c);
}
static void run_sums(void)
{
    cross_entropy_sums(&loss, a, ids, c, d);
}
static void run_loss_gradient(void)
{
    cross_entropy_gradient(&loss, a, ids, c, d, 1, b);
}
static void run_adamw(void)
{
    static const struct adamw adamw = { 1e-3F, 0.1F, 1, 0.9F, 0.95F, 1e-8F, 1 };
    adamw_update(&adamw, TOKENS * HIDDEN, a, b, c, d);
}
static void run_squares(void)
{
    volatile double sum = gradient_squares(TOKENS * FFN, a);
    (void)sum;
}
static void run_finite(void)
{
    volatile bool is_finite = gradients_are_finite(TOKENS * FFN, a);
    (void)is_finite;
}
static void run_round(void)
{
    bf16_round(TOKENS * FFN, d);
}
static void run_round_fp16(void)
{
    fp16_round(TOKENS * FFN, d);
}
static void run_normal(void)
{
    draw_normal(&residual.draw, 1, 0, TOKENS * HIDDEN, d);
}

static const double product = 2.0 * TOKENS * FFN * HIDDEN;
static const double attention_flops = 4.0 * TOKENS * SEQ * HIDDEN / 2;
static const double hidden_bytes = 4.0 * TOKENS * HIDDEN, ffn_bytes = 4.0 * TOKENS * FFN;
static const double score_bytes = 4.0 * TOKENS * SEQ * HEADS, logit_bytes = 4.0 * 256 * VOCAB;

/* Returns the amount of work of one run, and its unit: "FLOP" or "B". */
struct row {
    const char *name, *unit;
    void (*run)(void);
    double work;
};

static void make_arrays(void)
{
    for (size_t i = 0; i < LENGTH(arrays); i++)
        *arrays[i] = malloc(sizeof *a * NUM_VALUES);
    keeps = calloc(TOKENS, HIDDEN);
    ids = calloc(TOKENS, sizeof *ids);
    if (!a || !b || !c || !d || !weight || !keeps || !ids)
        abort();
    draw_normal(&residual.draw, 1, 0, NUM_VALUES, a);
}

int main(void)
{
    const struct row rows[] = {
        { "gemm forward", "FLOP", run_forward, product },
        { "gemm input gradient", "FLOP", run_input_gradient, product },
        { "gemm weight gradient", "FLOP", run_weight_gradient, product },
        { "bias gradient", "B", run_bias_gradient, ffn_bytes },
        { "flash attention", "FLOP", run_flash_forward, attention_flops },
        { "flash attention backward", "FLOP", run_flash_backward, 2.5 * attention_flops },
        { "scores", "FLOP", run_scores, attention_flops },
        { "softmax", "B", run_softmax, 2 * score_bytes },
        { "softmax backward", "B", run_softmax_backward, 3 * score_bytes },
        { "layer norm", "B", run_layer_norm, 2 * hidden_bytes },
        { "layer norm backward", "B", run_layer_norm_backward, 3 * hidden_bytes },
        { "gelu", "B", run_gelu, 2 * ffn_bytes },
        { "gelu backward", "B", run_gelu_backward, 3 * ffn_bytes },
        { "swiglu", "B", run_swiglu, 1.5 * ffn_bytes },
        { "swiglu backward", "B", run_swiglu_backward, 2.5 * ffn_bytes },
        { "residual", "B", run_residual, 3 * hidden_bytes },
        { "residual with dropout", "B", run_residual_dropout, 3.25 * hidden_bytes },
        { "loss maxima", "B", run_maxima, logit_bytes },
        { "loss sums", "B", run_sums, logit_bytes },
        { "loss gradient", "B", run_loss_gradient, 2 * logit_bytes },
        { "adamw", "B", run_adamw, 7 * hidden_bytes },
        { "sum of squares", "B", run_squares, ffn_bytes },
        { "all finite", "B", run_finite, ffn_bytes },
        { "round to bf16", "B", run_round, 2 * ffn_bytes },
        { "round to fp16", "B", run_round_fp16, 2 * ffn_bytes },
        { "normal numbers", "B", run_normal, hidden_bytes },
    };
    struct err err = { 0 };
    if (!openblas_find(&blas, &err))
        blas = own_blas;
    attention.blas = &blas;
    make_arrays();
    printf("products by %s\n", blas.name);
    for (size_t i = 0; i < LENGTH(rows); i++) {
        double best_s = 1e9;
        for (size_t j = 1; j < LENGTH(arrays); j++)
            memcpy(*arrays[j], a, sizeof *a * NUM_VALUES);
        for (int turn = 0; turn < TURNS; turn++) {
            double start_s = clock_now_s();
            rows[i].run();
            double took_s = clock_now_s() - start_s;
            best_s = took_s < best_s ? took_s : best_s;
        }
        printf("  %-26s %8.1f G%s/s  %8.3f ms\n", rows[i].name, rows[i].work / best_s / 1e9,
               rows[i].unit, best_s * 1e3);
    }
    return 0;
}
