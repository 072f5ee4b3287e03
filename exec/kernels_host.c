/* The host's kernels, issued on streams: each call carries its arguments to the stream's thread,
 * which hands them to kernels/host. */
#include "base/arena.h"
#include "exec/kernels.h"
#include "kernels/host/combine.h"
#include "kernels/host/linear.h"
#include "kernels/host/low_rank.h"
#include "kernels/host/rotary.h"
#include "kernels/host/round.h"
#include "kernels/host/top_k.h"
#include "models/op.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

struct kernels {
    struct blas blas;
};

static struct kernels *open_kernels(struct device *device, struct err *err)
{
    (void)device;
    struct kernels *kernels = arena_grow(NULL, sizeof *kernels);
    struct err none = { 0 };
    (void)err;
    if (!openblas_find(&kernels->blas, &none))
        kernels->blas = own_blas;
    return kernels;
}

static void close_kernels(struct kernels *kernels)
{
    free(kernels);
}

static size_t flash_scratch_bytes(const struct attention *attention)
{
    return sizeof(float) * (size_t)flash_attention_scratch(attention);
}

/* --- products ----------------------------------------------------------------------------- */

static void run_linear_forward(const struct kernels *k, const struct linear_forward *a)
{
    struct linear linear = { a->rows, a->out, a->in, &k->blas };
    linear_forward(&linear, a->x, a->weight, a->bias, a->y);
}

static void run_linear_input_gradient(const struct kernels *k,
                                      const struct linear_input_gradient *a)
{
    struct linear linear = { a->rows, a->out, a->in, &k->blas };
    linear_input_gradient(&linear, a->dy, a->weight, a->dx);
}

static void run_linear_weight_gradient(const struct kernels *k,
                                       const struct linear_weight_gradient *a)
{
    struct linear linear = { a->rows, a->out, a->in, &k->blas };
    linear_weight_gradient(&linear, a->dy, a->x, a->dweight);
}

static void run_linear_bias_gradient(const struct kernels *k, const struct linear_bias_gradient *a)
{
    (void)k;
    linear_bias_gradient(a->rows, a->width, a->dy, a->dbias);
}

/* --- norms -------------------------------------------------------------------------------- */

static void run_norm_forward(const struct kernels *k, const struct norm_forward *a)
{
    (void)k;
    if (a->kind == NORM_LAYER)
        layer_norm_forward(&a->norm, a->x, a->scale, a->shift, a->y, a->statistics,
                           a->statistics + a->norm.rows);
    else
        rms_norm_forward(&a->norm, a->x, a->scale, a->y, a->statistics);
}

static void run_norm_backward(const struct kernels *k, const struct norm_backward *a)
{
    (void)k;
    if (a->kind == NORM_LAYER)
        layer_norm_backward(&a->norm, a->dy, a->x, a->scale, a->statistics,
                            a->statistics + a->norm.rows, a->dx, a->dscale, a->dshift);
    else
        rms_norm_backward(&a->norm, a->dy, a->x, a->scale, a->statistics, a->dx, a->dscale);
}

static void run_head_norm_forward(const struct kernels *k, const struct head_norm_forward *a)
{
    (void)k;
    struct head_norm_weights scale = { a->scale, a->scale + a->attention.head_dim };
    head_norm_forward(&a->attention, a->epsilon, scale, a->qkv, a->inputs, a->statistics);
}

static void run_head_norm_backward(const struct kernels *k, const struct head_norm_backward *a)
{
    (void)k;
    long head_dim = a->attention.head_dim;
    struct head_norm_weights scale = { a->scale, a->scale + head_dim };
    struct head_norm_gradients dscale = { a->dscale, a->dscale + head_dim };
    head_norm_backward(&a->attention, scale, a->inputs, a->statistics, a->dqkv, dscale);
}

/* --- attention ---------------------------------------------------------------------------- */

static struct attention with_blas(const struct kernels *k, struct attention attention)
{
    attention.blas = &k->blas;
    return attention;
}

static void run_rotary_forward(const struct kernels *k, const struct rotary *a)
{
    (void)k;
    rotary_forward(&a->attention, a->turns, a->qkv);
}

static void run_rotary_backward(const struct kernels *k, const struct rotary *a)
{
    (void)k;
    rotary_backward(&a->attention, a->turns, a->qkv);
}

static void run_flash_forward(const struct kernels *k, const struct flash_forward *a)
{
    struct attention attention = with_blas(k, a->attention);
    flash_attention_forward(&attention, a->qkv, a->context, a->log_sums, a->scratch);
}

static void run_flash_backward(const struct kernels *k, const struct flash_backward *a)
{
    struct attention attention = with_blas(k, a->attention);
    flash_attention_backward(&attention, a->dcontext, a->qkv, a->context, a->log_sums, a->dqkv,
                             a->scratch);
}

static void run_scores(const struct kernels *k, const struct scores *a)
{
    struct attention attention = with_blas(k, a->attention);
    attention_scores(&attention, a->qkv, a->scores);
}

static void run_softmax(const struct kernels *k, const struct softmax *a)
{
    (void)k;
    attention_softmax(&a->attention, a->scores, a->probabilities, a->keeps, a->dropped);
}

static void run_context(const struct kernels *k, const struct context *a)
{
    struct attention attention = with_blas(k, a->attention);
    attention_context(&attention, a->dropped, a->qkv, a->context);
}

static void run_context_probability_gradient(const struct kernels *k,
                                             const struct context_backward *a)
{
    struct attention attention = with_blas(k, a->attention);
    attention_context_probability_gradient(&attention, a->dcontext, a->qkv, a->ddropped);
}

static void run_context_value_gradient(const struct kernels *k, const struct context_backward *a)
{
    struct attention attention = with_blas(k, a->attention);
    attention_context_value_gradient(&attention, a->dcontext, a->dropped, a->dqkv);
}

static void run_softmax_backward(const struct kernels *k, const struct softmax_backward *a)
{
    (void)k;
    attention_softmax_backward(&a->attention, a->ddropped, a->probabilities, a->keeps, a->dscores);
}

static void run_scores_query_gradient(const struct kernels *k, const struct scores_backward *a)
{
    struct attention attention = with_blas(k, a->attention);
    attention_scores_query_gradient(&attention, a->dscores, a->qkv, a->dqkv);
}

static void run_scores_key_gradient(const struct kernels *k, const struct scores_backward *a)
{
    struct attention attention = with_blas(k, a->attention);
    attention_scores_key_gradient(&attention, a->dscores, a->qkv, a->dqkv);
}

/* --- element by element ------------------------------------------------------------------- */

static void run_activation(const struct kernels *k, const struct activation_args *a)
{
    (void)k;
    activation_forward(&a->shape, a->x, a->bias, a->y);
}

static void run_activation_gradient(const struct kernels *k, const struct activation_gradient *a)
{
    (void)k;
    activation_backward(&a->shape, a->dy, a->x, a->bias, a->dx);
}

static void run_residual(const struct kernels *k, const struct residual_args *a)
{
    (void)k;
    residual_forward(&a->residual, a->x, a->bias, a->h, a->keeps, a->y);
}

static void run_residual_gradient(const struct kernels *k, const struct residual_gradient *a)
{
    (void)k;
    residual_backward(&a->residual, a->dy, a->keeps, a->dx);
}

static void run_sum_into(const struct kernels *k, const struct sum_into *a)
{
    (void)k;
    residual_add(a->n, a->x, a->sum);
}

static void run_round(const struct kernels *k, const struct round_args *a)
{
    (void)k;
    if (a->dtype == DTYPE_BF16)
        bf16_round(a->n, a->x);
    else
        fp16_round(a->n, a->x);
}

/* --- tokens ------------------------------------------------------------------------------- */

static void run_embedding(const struct kernels *k, const struct embedding_args *a)
{
    (void)k;
    struct positions positions = { a->embedding.tokens, a->embedding.width, a->seq };
    embedding_gather(&a->embedding, a->ids, a->table, a->y);
    if (a->positions)
        positions_add(&positions, a->positions, a->y);
}

static void run_embedding_gradient(const struct kernels *k, const struct embedding_gradient *a)
{
    (void)k;
    struct positions positions = { a->embedding.tokens, a->embedding.width, a->seq };
    embedding_accumulate(&a->embedding, a->ids, a->dy, a->dtable);
    if (a->dpositions)
        positions_accumulate(&positions, a->dy, a->dpositions);
}

static void run_loss_maxima(const struct kernels *k, const struct loss_maxima *a)
{
    (void)k;
    cross_entropy_maxima(&a->loss, a->logits, a->maxima);
}

static void run_loss_sums(const struct kernels *k, const struct loss_sums *a)
{
    (void)k;
    cross_entropy_sums(&a->loss, a->logits, a->targets, a->maxima, a->sums);
}

static void run_loss_total(const struct kernels *k, const struct loss_total *a)
{
    (void)k;
    *a->total += cross_entropy_loss(a->rows, a->targets, a->sums);
}

static void run_loss_gradient(const struct kernels *k, const struct loss_gradient *a)
{
    (void)k;
    cross_entropy_gradient(&a->loss, a->logits, a->targets, a->maxima, a->sums, a->scale,
                           a->dlogits);
}

/* --- updates ------------------------------------------------------------------------------ */

static void run_sgd(const struct kernels *k, const struct sgd_args *a)
{
    (void)k;
    struct sgd sgd = a->sgd;
    if (isnan(*a->scale))
        return;
    sgd.gradient_scale = *a->scale;
    sgd_update(&sgd, a->n, a->gradients, a->weights);
}

static void run_momentum(const struct kernels *k, const struct momentum_args *a)
{
    (void)k;
    struct momentum momentum = a->momentum;
    if (isnan(*a->scale))
        return;
    momentum.gradient_scale = *a->scale;
    momentum_update(&momentum, a->n, a->gradients, a->velocities, a->weights);
}

static void run_adamw(const struct kernels *k, const struct adamw_args *a)
{
    (void)k;
    struct adamw adamw = a->adamw;
    if (isnan(*a->scale))
        return;
    adamw.gradient_scale = *a->scale;
    adamw_update(&adamw, a->n, a->gradients, a->first_moments, a->second_moments, a->weights);
}

static void run_square_sum(const struct kernels *k, const struct square_sum *a)
{
    (void)k;
    *a->sum += gradient_squares(a->n, a->gradients);
}

static void run_clip(const struct kernels *k, const struct clip *a)
{
    (void)k;
    double norm = sqrt(*a->squares) / a->loss_scale;
    double scale = (double)gradient_clip(norm, a->limit) / a->loss_scale;
    *a->scale = isfinite(norm) ? (float)scale : NAN;
}

/* --- exchanges ---------------------------------------------------------------------------- */

static void run_combine(const struct kernels *k, const struct combine_args *a)
{
    (void)k;
    combine(a->n, a->a, a->x, a->b, a->y, a->out);
}

static void run_quantise(const struct kernels *k, const struct quantise_args *a)
{
    (void)k;
    quantise(&a->quantiser, &a->draw, a->first, a->n, a->x, a->norms, a->codes);
}

static void run_dequantise_add(const struct kernels *k, const struct dequantise_args *a)
{
    (void)k;
    dequantise_add(&a->quantiser, a->n, a->norms, a->codes, a->sum);
}

static void run_top_k_take(const struct kernels *k, const struct top_k_args *a)
{
    (void)k;
    top_k_take(a->n, a->x, a->k, a->indices, a->values);
}

static void run_top_k_add(const struct kernels *k, const struct top_k_args *a)
{
    (void)k;
    top_k_add(a->k, a->indices, a->values, a->n, a->x);
}

static void run_orthogonalise(const struct kernels *k, const struct orthogonalise_args *a)
{
    (void)k;
    orthogonalise(a->rows, a->rank, a->columns);
}

/* --- the table ---------------------------------------------------------------------------- */

/* What goes to the stream's thread and what is called there. */
#define X(name, args)                                                                    \
    struct name##_call {                                                                 \
        const struct kernels *kernels;                                                   \
        struct args args;                                                                \
    };                                                                                   \
    static void on_stream_##name(void *call)                                             \
    {                                                                                    \
        struct name##_call *c = call;                                                    \
        run_##name(c->kernels, &c->args);                                                \
    }                                                                                    \
    static void issue_##name(struct kernels *kernels, struct stream *stream,             \
                             const struct args *args)                                    \
    {                                                                                    \
        struct name##_call call = { kernels, *args };                                    \
        static_assert(sizeof call <= STREAM_ARGS_BYTES, "a stream takes no more along"); \
        device_host.call(stream, on_stream_##name, &call, sizeof call);                  \
    }
KERNELS(X)
EXCHANGE_KERNELS(X)
#undef X

const struct kernel_api kernels_host = { .name = "host",
                                         .open = open_kernels,
                                         .close = close_kernels,
                                         .flash_scratch_bytes = flash_scratch_bytes,
#define X(name, args) .name = issue_##name,
                                         KERNELS(X) EXCHANGE_KERNELS(X)
#undef X
};
