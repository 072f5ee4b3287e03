/* Linear layers and attention on values in the storage type (fp32, bf16 or fp16). Each op converts
 * its inputs to fp32, computes, and rounds its results once. */
#include "kernels/host/linear.h"
#include "kernels/host/rotary.h"
#include "kernels/host/stored.h"
#include "kernels/host/widen.h"

/* --- linear layers ------------------------------------------------------------------------ */

void stored_linear_forward(const struct host_kernels *k, const struct linear_forward *a)
{
    struct linear linear = { a->rows, a->out, a->in, &k->blas };
    struct widening w = { .storage = k->storage };
    const float *x = widen(&w, a->x, a->rows * a->in);
    const float *weight = widen(&w, a->weight, a->out * a->in);
    const float *bias = widen(&w, a->bias, a->out);
    float *y = widen_output(&w, a->y, a->rows * a->out);
    float *product = a->before_gelu ? widen_output(&w, a->before_gelu, a->rows * a->out) : y;
    linear_forward(&linear, x, weight, bias, product);
    if (a->before_gelu)
        activation_forward(&(struct activation_shape){ ACTIVATION_GELU, a->rows, a->out }, product,
                           NULL, y);
    widening_end(&w);
}

void stored_linear_input_gradient(const struct host_kernels *k,
                                  const struct linear_input_gradient *a)
{
    struct linear linear = { a->rows, a->out, a->in, &k->blas };
    struct widening w = { .storage = k->storage };
    const float *dy = widen(&w, a->dy, a->rows * a->out);
    const float *weight = widen(&w, a->weight, a->out * a->in);
    const float *before = widen(&w, a->before_gelu, a->rows * a->in);
    float *dx = widen_output(&w, a->dx, a->rows * a->in);
    linear_input_gradient(&linear, dy, weight, dx);
    if (before)
        activation_backward(&(struct activation_shape){ ACTIVATION_GELU, a->rows, a->in }, dx,
                            before, NULL, dx);
    widening_end(&w);
}

void stored_linear_weight_gradient(const struct host_kernels *k,
                                   const struct linear_weight_gradient *a)
{
    struct linear linear = { a->rows, a->out, a->in, &k->blas };
    struct widening w = { .storage = k->storage };
    const float *dy = widen(&w, a->dy, a->rows * a->out);
    linear_weight_gradient(&linear, dy, widen(&w, a->x, a->rows * a->in), a->dweight);
    if (a->dbias)
        linear_bias_gradient(a->rows, a->out, dy, a->dbias);
    widening_end(&w);
}

void stored_linear_bias_gradient(const struct host_kernels *k, const struct linear_bias_gradient *a)
{
    struct widening w = { .storage = k->storage };
    linear_bias_gradient(a->rows, a->width, widen(&w, a->dy, a->rows * a->width), a->dbias);
    widening_end(&w);
}

/* --- sizes -------------------------------------------------------------------------------- */

static struct attention with_blas(const struct host_kernels *k, struct attention attention)
{
    attention.blas = &k->blas;
    return attention;
}

static long qkv_count(const struct attention *attention)
{
    return attention_tokens(attention) * attention_qkv_width(attention);
}

static long context_count(const struct attention *attention)
{
    return attention_tokens(attention) * attention_context_width(attention);
}

/* --- in place on packed qkv --------------------------------------------------------------- */

static long head_norm_count(const struct attention *attention)
{
    return attention_tokens(attention) * (attention->heads + attention->kv_heads) *
           attention->head_dim;
}

void stored_head_norm_forward(const struct host_kernels *k, const struct head_norm_forward *a)
{
    struct widening w = { .storage = k->storage };
    long head_dim = a->attention.head_dim;
    const float *scale = widen(&w, a->scale, 2 * head_dim);
    float *qkv = widen_in_place(&w, a->qkv, qkv_count(&a->attention));
    float *inputs = widen_output(&w, a->inputs, head_norm_count(&a->attention));
    struct head_norm_weights weights = { scale, scale + head_dim };
    head_norm_forward(&a->attention, a->epsilon, weights, qkv, inputs, a->statistics);
    widening_end(&w);
}

void stored_head_norm_backward(const struct host_kernels *k, const struct head_norm_backward *a)
{
    struct widening w = { .storage = k->storage };
    long head_dim = a->attention.head_dim;
    const float *scale = widen(&w, a->scale, 2 * head_dim);
    const float *inputs = widen(&w, a->inputs, head_norm_count(&a->attention));
    float *dqkv = widen_in_place(&w, a->dqkv, qkv_count(&a->attention));
    struct head_norm_weights weights = { scale, scale + head_dim };
    struct head_norm_gradients dscale = { a->dscale, a->dscale + head_dim };
    head_norm_backward(&a->attention, weights, inputs, a->statistics, dqkv, dscale);
    widening_end(&w);
}

void stored_rotary_forward(const struct host_kernels *k, const struct rotary *a)
{
    struct widening w = { .storage = k->storage };
    rotary_forward(&a->attention, a->rope_cos_sin,
                   widen_in_place(&w, a->qkv, qkv_count(&a->attention)));
    widening_end(&w);
}

void stored_rotary_backward(const struct host_kernels *k, const struct rotary *a)
{
    struct widening w = { .storage = k->storage };
    rotary_backward(&a->attention, a->rope_cos_sin,
                    widen_in_place(&w, a->qkv, qkv_count(&a->attention)));
    widening_end(&w);
}

/* --- fused attention ---------------------------------------------------------------------- */

void stored_flash_forward(const struct host_kernels *k, const struct flash_forward *a)
{
    struct attention attention = with_blas(k, a->attention);
    struct widening w = { .storage = k->storage };
    const float *qkv = widen(&w, a->qkv, qkv_count(&attention));
    float *context = widen_output(&w, a->context, context_count(&attention));
    flash_attention_forward(&attention, qkv, context, a->log_sums, a->scratch);
    widening_end(&w);
}

void stored_flash_backward(const struct host_kernels *k, const struct flash_backward *a)
{
    struct attention attention = with_blas(k, a->attention);
    struct widening w = { .storage = k->storage };
    const float *dcontext = widen(&w, a->dcontext, context_count(&attention));
    const float *qkv = widen(&w, a->qkv, qkv_count(&attention));
    const float *context = widen(&w, a->context, context_count(&attention));
    float *dqkv = widen_output(&w, a->dqkv, qkv_count(&attention));
    flash_attention_backward(&attention, dcontext, qkv, context, a->log_sums, dqkv, a->scratch);
    widening_end(&w);
}

/* --- attention to another sequence -------------------------------------------------------- */

void stored_cross_forward(const struct host_kernels *k, const struct cross_forward *a)
{
    struct widening w = { .storage = k->storage };
    long queries = cross_attention_query_count(&a->attention);
    const float *q = widen(&w, a->queries, queries);
    const float *kv = widen(&w, a->key_values, cross_attention_key_value_count(&a->attention));
    cross_attention_forward(&a->attention, q, kv, widen_output(&w, a->context, queries),
                            a->log_sums);
    widening_end(&w);
}

void stored_cross_backward(const struct host_kernels *k, const struct cross_backward *a)
{
    struct widening w = { .storage = k->storage };
    long queries = cross_attention_query_count(&a->attention);
    long keys = cross_attention_key_value_count(&a->attention);
    const float *dcontext = widen(&w, a->dcontext, queries);
    const float *q = widen(&w, a->queries, queries), *kv = widen(&w, a->key_values, keys);
    const float *context = widen(&w, a->context, queries);
    float *dq = widen_output(&w, a->dqueries, queries);
    float *dkv = widen_output(&w, a->dkey_values, keys);
    cross_attention_backward(&a->attention, dcontext, q, kv, context, a->log_sums, dq, dkv);
    widening_end(&w);
}

/* --- unfused attention: each product writes its part of dqkv ------------------------------ */

void stored_scores(const struct host_kernels *k, const struct scores *a)
{
    struct attention attention = with_blas(k, a->attention);
    struct widening w = { .storage = k->storage };
    const float *qkv = widen(&w, a->qkv, qkv_count(&attention));
    attention_scores(&attention, qkv,
                     widen_output(&w, a->scores, attention_score_count(&attention)));
    widening_end(&w);
}

void stored_softmax(const struct host_kernels *k, const struct softmax *a)
{
    struct widening w = { .storage = k->storage };
    long n = attention_score_count(&a->attention);
    const float *scores = widen(&w, a->scores, n);
    float *probabilities = widen_output(&w, a->probabilities, n);
    attention_softmax(&a->attention, scores, probabilities, a->keeps,
                      widen_output(&w, a->dropped, n));
    widening_end(&w);
}

void stored_context(const struct host_kernels *k, const struct context *a)
{
    struct attention attention = with_blas(k, a->attention);
    struct widening w = { .storage = k->storage };
    const float *dropped = widen(&w, a->dropped, attention_score_count(&attention));
    const float *qkv = widen(&w, a->qkv, qkv_count(&attention));
    attention_context(&attention, dropped, qkv,
                      widen_output(&w, a->context, context_count(&attention)));
    widening_end(&w);
}

void stored_context_probability_gradient(const struct host_kernels *k,
                                         const struct context_backward *a)
{
    struct attention attention = with_blas(k, a->attention);
    struct widening w = { .storage = k->storage };
    const float *dcontext = widen(&w, a->dcontext, context_count(&attention));
    const float *qkv = widen(&w, a->qkv, qkv_count(&attention));
    attention_context_probability_gradient(
        &attention, dcontext, qkv,
        widen_output(&w, a->ddropped, attention_score_count(&attention)));
    widening_end(&w);
}

void stored_context_value_gradient(const struct host_kernels *k, const struct context_backward *a)
{
    struct attention attention = with_blas(k, a->attention);
    struct widening w = { .storage = k->storage };
    const float *dcontext = widen(&w, a->dcontext, context_count(&attention));
    const float *dropped = widen(&w, a->dropped, attention_score_count(&attention));
    attention_context_value_gradient(&attention, dcontext, dropped,
                                     widen_in_place(&w, a->dqkv, qkv_count(&attention)));
    widening_end(&w);
}

void stored_softmax_backward(const struct host_kernels *k, const struct softmax_backward *a)
{
    struct widening w = { .storage = k->storage };
    long n = attention_score_count(&a->attention);
    const float *ddropped = widen(&w, a->ddropped, n);
    const float *probabilities = widen(&w, a->probabilities, n);
    attention_softmax_backward(&a->attention, ddropped, probabilities, a->keeps,
                               widen_output(&w, a->dscores, n));
    widening_end(&w);
}

void stored_scores_query_gradient(const struct host_kernels *k, const struct scores_backward *a)
{
    struct attention attention = with_blas(k, a->attention);
    struct widening w = { .storage = k->storage };
    const float *dscores = widen(&w, a->dscores, attention_score_count(&attention));
    const float *qkv = widen(&w, a->qkv, qkv_count(&attention));
    attention_scores_query_gradient(&attention, dscores, qkv,
                                    widen_in_place(&w, a->dqkv, qkv_count(&attention)));
    widening_end(&w);
}

void stored_scores_key_gradient(const struct host_kernels *k, const struct scores_backward *a)
{
    struct attention attention = with_blas(k, a->attention);
    struct widening w = { .storage = k->storage };
    const float *dscores = widen(&w, a->dscores, attention_score_count(&attention));
    const float *qkv = widen(&w, a->qkv, qkv_count(&attention));
    attention_scores_key_gradient(&attention, dscores, qkv,
                                  widen_in_place(&w, a->dqkv, qkv_count(&attention)));
    widening_end(&w);
}
