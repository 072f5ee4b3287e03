/* Row-wise and element-wise kernels, and updates of the optimizer, on values in the storage type
 * (fp32, bf16 or fp16). */
#include "base/arena.h"
#include "kernels/host/round.h"
#include "kernels/host/stored.h"
#include "kernels/host/widen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- norms -------------------------------------------------------------------------------- */

void stored_norm_forward(const struct host_kernels *k, const struct norm_forward *a)
{
    struct widening w = { .storage = k->storage };
    long n = a->norm.rows * a->norm.width;
    const float *x = widen(&w, a->x, n);
    const float *scale = widen(&w, a->scale, a->norm.width);
    const float *shift = widen(&w, a->shift, a->norm.width);
    float *y = widen_output(&w, a->y, n);
    if (a->kind == NORM_LAYER)
        layer_norm_forward(&a->norm, x, scale, shift, y, a->statistics,
                           a->statistics + a->norm.rows);
    else
        rms_norm_forward(&a->norm, x, scale, y, a->statistics);
    widening_end(&w);
}

/* Adds the stream's gradient to the norm's gradient, `own`. dx may be the stream's gradient, so
 * `own` is a separate array. */
static void add_stream(long n, const float *stream, const float *own, float *dx)
{
    if (dx != stream)
        memcpy(dx, stream, sizeof *dx * (size_t)n);
    residual_add(n, own, dx);
}

void stored_norm_backward(const struct host_kernels *k, const struct norm_backward *a)
{
    struct widening w = { .storage = k->storage };
    long n = a->norm.rows * a->norm.width;
    const float *dy = widen(&w, a->dy, n);
    const float *x = widen(&w, a->x, n);
    const float *scale = widen(&w, a->scale, a->norm.width);
    const float *stream = widen(&w, a->stream, n);
    float *dx = widen_output(&w, a->dx, n);
    float *own = stream ? arena_grow(NULL, sizeof *own * (size_t)n + 1) : dx;
    if (a->kind == NORM_LAYER)
        layer_norm_backward(&a->norm, dy, x, scale, a->statistics, a->statistics + a->norm.rows,
                            own, a->dscale, a->dshift);
    else
        rms_norm_backward(&a->norm, dy, x, scale, a->statistics, own, a->dscale);
    if (stream) {
        add_stream(n, stream, own, dx);
        free(own);
    }
    widening_end(&w);
}

/* --- element by element ------------------------------------------------------------------- */

void stored_activation(const struct host_kernels *k, const struct activation_args *a)
{
    struct widening w = { .storage = k->storage };
    long inputs = activation_inputs(&a->shape);
    const float *x = widen(&w, a->x, a->shape.rows * inputs);
    const float *bias = widen(&w, a->bias, inputs);
    activation_forward(&a->shape, x, bias, widen_output(&w, a->y, a->shape.rows * a->shape.width));
    widening_end(&w);
}

void stored_activation_gradient(const struct host_kernels *k, const struct activation_gradient *a)
{
    struct widening w = { .storage = k->storage };
    long inputs = activation_inputs(&a->shape);
    const float *dy = widen(&w, a->dy, a->shape.rows * a->shape.width);
    const float *x = widen(&w, a->x, a->shape.rows * inputs);
    const float *bias = widen(&w, a->bias, inputs);
    activation_backward(&a->shape, dy, x, bias, widen_output(&w, a->dx, a->shape.rows * inputs));
    widening_end(&w);
}

void stored_residual(const struct host_kernels *k, const struct residual_args *a)
{
    struct widening w = { .storage = k->storage };
    long n = a->residual.rows * a->residual.width;
    const float *x = widen(&w, a->x, n);
    const float *bias = widen(&w, a->bias, a->residual.width);
    const float *h = widen(&w, a->h, n);
    residual_forward(&a->residual, x, bias, h, a->keeps, widen_output(&w, a->y, n));
    widening_end(&w);
}

void stored_residual_norm(const struct host_kernels *k, const struct residual_norm *a)
{
    stored_residual(k, &a->residual);
    stored_norm_forward(k, &a->norm);
}

void stored_residual_gradient(const struct host_kernels *k, const struct residual_gradient *a)
{
    struct widening w = { .storage = k->storage };
    long n = a->residual.rows * a->residual.width;
    const float *dy = widen(&w, a->dy, n);
    residual_backward(&a->residual, dy, a->keeps, widen_output(&w, a->dx, n));
    widening_end(&w);
}

void stored_sum_into(const struct host_kernels *k, const struct sum_into *a)
{
    struct widening w = { .storage = k->storage };
    const float *x = widen(&w, a->x, a->n);
    residual_add(a->n, x, widen_in_place(&w, a->sum, a->n));
    widening_end(&w);
}

/* --- tokens ------------------------------------------------------------------------------- */

void stored_embedding(const struct host_kernels *k, const struct embedding_args *a)
{
    struct widening w = { .storage = k->storage };
    long width = a->embedding.width;
    struct positions positions = { a->embedding.tokens, width, a->seq };
    const float *table = widen(&w, a->table, (long)a->embedding.rows * width);
    const float *of_positions = widen(&w, a->positions, a->seq * width);
    float *y = widen_output(&w, a->y, a->embedding.tokens * width);
    embedding_gather(&a->embedding, a->ids, table, y);
    if (of_positions)
        positions_add(&positions, of_positions, y);
    widening_end(&w);
}

void stored_embedding_gradient(const struct host_kernels *k, const struct embedding_gradient *a)
{
    struct widening w = { .storage = k->storage };
    struct positions positions = { a->embedding.tokens, a->embedding.width, a->seq };
    const float *dy = widen(&w, a->dy, a->embedding.tokens * a->embedding.width);
    embedding_accumulate(&a->embedding, a->ids, dy, a->dtable);
    if (a->dpositions)
        positions_accumulate(&positions, dy, a->dpositions);
    widening_end(&w);
}

void stored_loss_maxima(const struct host_kernels *k, const struct loss_maxima *a)
{
    struct widening w = { .storage = k->storage };
    cross_entropy_maxima(&a->loss, widen(&w, a->logits, a->loss.rows * a->loss.columns), a->maxima);
    widening_end(&w);
}

void stored_loss_sums(const struct host_kernels *k, const struct loss_sums *a)
{
    struct widening w = { .storage = k->storage };
    const float *logits = widen(&w, a->logits, a->loss.rows * a->loss.columns);
    cross_entropy_sums(&a->loss, logits, a->targets, a->maxima, a->sums);
    widening_end(&w);
}

void stored_loss_total(const struct host_kernels *k, const struct loss_total *a)
{
    (void)k;
    *a->total += cross_entropy_loss(a->rows, a->targets, a->sums);
}

void stored_loss_gradient(const struct host_kernels *k, const struct loss_gradient *a)
{
    struct widening w = { .storage = k->storage };
    long n = a->loss.rows * a->loss.columns;
    const float *logits = widen(&w, a->logits, n);
    cross_entropy_gradient(&a->loss, logits, a->targets, a->maxima, a->sums, *a->scale,
                           widen_output(&w, a->dlogits, n));
    widening_end(&w);
}

/* --- updates ------------------------------------------------------------------------------ */

void stored_pack(const struct host_kernels *k, const struct pack *a)
{
    if (k->storage == DTYPE_BF16)
        bf16_pack(a->n, a->x, a->y);
    else if (k->storage == DTYPE_FP16)
        fp16_pack(a->n, a->x, a->y);
    else
        for (long i = 0; i < a->n; i++)
            ((float *)a->y)[i] = a->x[i];
}

static void store_weights(const struct host_kernels *k, long n, const float *weights, void *values)
{
    if (values)
        stored_pack(k, &(struct pack){ n, weights, values });
}

void stored_sgd(const struct host_kernels *k, const struct sgd_args *a)
{
    struct sgd sgd = a->sgd;
    if (isnan(*a->scale))
        return;
    sgd.gradient_scale = *a->scale;
    sgd_update(&sgd, a->n, a->gradients, a->weights);
    store_weights(k, a->n, a->weights, a->values);
}

void stored_momentum(const struct host_kernels *k, const struct momentum_args *a)
{
    struct momentum momentum = a->momentum;
    if (isnan(*a->scale))
        return;
    momentum.gradient_scale = *a->scale;
    momentum_update(&momentum, a->n, a->gradients, a->velocities, a->weights);
    store_weights(k, a->n, a->weights, a->values);
}

void stored_adamw(const struct host_kernels *k, const struct adamw_args *a)
{
    struct adamw adamw = a->adamw;
    if (isnan(*a->scale))
        return;
    adamw.gradient_scale = *a->scale;
    adamw_update(&adamw, a->n, a->gradients, a->first_moments, a->second_moments, a->weights);
    store_weights(k, a->n, a->weights, a->values);
}

void stored_square_sum(const struct host_kernels *k, const struct square_sum *a)
{
    (void)k;
    *a->sum += gradient_squares(a->n, a->gradients);
}

void stored_clip(const struct host_kernels *k, const struct clip *a)
{
    (void)k;
    double norm = sqrt(*a->squares) / a->loss_scale;
    double scale = (double)gradient_clip(norm, a->limit) / a->loss_scale;
    *a->scale = isfinite(norm) ? (float)scale : NAN;
}

void stored_gradient_sum(const struct host_kernels *k, const struct gradient_sum *a)
{
    (void)k;
    residual_add(a->n, a->x, a->sum);
}
