/* kernels/host/args.h - the arguments of every op that a backend runs: a struct for each op, and a
 * table of all ops. C and CUDA C++ may include it.
 *
 * Values passed between ops, including weights, are `void *`: fp32, bf16 or fp16, the same type for
 * all calls of a backend's handle; sums are always in fp32. Statistics of rows, main gradients,
 * master weights, moments and scalars are `float *` or `double *` for every type of values. All
 * pointers are to device memory.
 *
 * The headers in kernels/host define shapes, packing, saved values and allowed overlap. The host's
 * functions are the reference: other backends compute the same values up to rounding. */
#ifndef KERNELS_HOST_ARGS_H
#define KERNELS_HOST_ARGS_H

#include "kernels/host/activation.h"
#include "kernels/host/attention.h"
#include "kernels/host/cross_attention.h"
#include "kernels/host/cross_entropy.h"
#include "kernels/host/embedding.h"
#include "kernels/host/norm.h"
#include "kernels/host/optimizer.h"
#include "kernels/host/quantise.h"
#include "kernels/host/residual.h"
#include "kernels/host/robust.h"
#include "kernels/host/route.h"

/* x [rows, in], weight [out, in], bias [out] or NULL, y [rows, out]. If `before_gelu` is set, the
 * forward writes the product to it, and y is the gelu of the product. The input gradient multiplies
 * dx by gelu's derivative at `before_gelu`, which the layer that made x saved. */
struct linear_forward {
    long rows, out, in;
    const void *x, *weight, *bias;
    void *y, *before_gelu; /* [rows, out] */
};
struct linear_input_gradient {
    long rows, out, in;
    const void *dy, *weight;
    void *dx;
    const void *before_gelu; /* [rows, in] */
};
struct linear_weight_gradient { /* dweight and dbias are added to */
    long rows, out, in;
    const void *dy, *x;
    float *dweight, *dbias; /* dbias may be NULL */
};
struct linear_bias_gradient { /* dbias is added to */
    long rows, width;
    const void *dy;
    float *dbias;
};

/* `kind` is enum norm_kind; statistics: mean and rstd [2, rows], or rstd [rows]. */
struct norm_forward {
    struct norm norm;
    int kind;
    const void *x, *scale, *shift;
    void *y;
    float *statistics;
};
struct norm_backward { /* adds to dscale and dshift */
    struct norm norm;
    int kind;
    const void *dy, *x, *scale;
    const float *statistics;
    void *dx;
    float *dscale, *dshift;
    const void *stream; /* gradient of the residual stream, added to dx; may be dx; NULL: none */
};
struct head_norm_forward {
    struct attention attention;
    float epsilon;
    const void *scale; /* [2, head_dim]: scales of queries and of keys */
    void *qkv, *inputs;
    float *statistics;
};
struct head_norm_backward {
    struct attention attention;
    const void *scale, *inputs;
    const float *statistics;
    void *dqkv;
    float *dscale;
};

/* Works in place; rotary_table of kernels/host/rotary.h fills `rope_cos_sin`. */
struct rotary {
    struct attention attention;
    const float *rope_cos_sin;
    void *qkv;
};

struct flash_forward {
    struct attention attention;
    const void *qkv;
    void *context;
    float *log_sums;
    void *scratch;
};
struct flash_backward {
    struct attention attention;
    const void *dcontext, *qkv, *context;
    const float *log_sums;
    void *dqkv, *scratch;
};
struct scores {
    struct attention attention;
    const void *qkv;
    void *scores;
};
struct softmax {
    struct attention attention;
    const void *scores;
    void *probabilities;
    uint8_t *keeps; /* `keeps` and `dropped` are NULL without dropout */
    void *dropped;
};
struct context {
    struct attention attention;
    const void *dropped, *qkv;
    void *context;
};
struct context_backward { /* context_probability_gradient writes ddropped; context_value_gradient
                             writes the values' part of dqkv */
    struct attention attention;
    const void *dcontext, *qkv, *dropped;
    void *ddropped, *dqkv;
};
struct softmax_backward {
    struct attention attention;
    const void *ddropped, *probabilities;
    const uint8_t *keeps;
    void *dscores;
};
struct scores_backward { /* scores_query_gradient writes the queries' part of dqkv,
                            scores_key_gradient the keys' part */
    struct attention attention;
    const void *dscores, *qkv;
    void *dqkv;
};

struct activation_args {
    struct activation_shape shape;
    const void *x, *bias;
    void *y;
};
struct activation_gradient {
    struct activation_shape shape;
    const void *dy, *x, *bias;
    void *dx;
};

struct residual_args {
    struct residual residual;
    const void *x, *bias, *h;
    uint8_t *keeps;
    void *y;
};
/* A residual sum and the norm that follows it, in one pass over the rows; norm.x is residual.y. */
struct residual_norm {
    struct residual_args residual;
    struct norm_forward norm;
};
struct residual_gradient {
    struct residual residual;
    const void *dy;
    const uint8_t *keeps;
    void *dx;
};
struct sum_into { /* sum += x */
    long n;
    const void *x;
    void *sum;
};

/* Positions are added when `positions` is given. */
struct embedding_args {
    struct embedding embedding;
    long seq;
    const int64_t *ids;
    const void *table, *positions;
    void *y;
};
struct embedding_gradient { /* the gradients are added to */
    struct embedding embedding;
    long seq;
    const int64_t *ids;
    const void *dy;
    float *dtable, *dpositions;
};

struct loss_maxima {
    struct cross_entropy loss;
    const void *logits;
    float *maxima;
};
struct loss_sums {
    struct cross_entropy loss;
    const void *logits;
    const int64_t *targets;
    const float *maxima;
    float *sums;
};
struct loss_total { /* *total += the sum of the rows' losses */
    long rows;
    const int64_t *targets;
    const float *sums;
    double *total;
};
struct loss_gradient {
    struct cross_entropy loss;
    const void *logits;
    const int64_t *targets;
    const float *maxima, *sums;
    const float *scale; /* one number: the gradient of the total loss */
    void *dlogits;
};

/* Updates of shards of n elements. Gradients are multiplied by *scale; if that is NaN, weights and
 * moments stay unchanged. `values` gets the new weights in the storage type. It is NULL if that
 * type is fp32, because the weights are then used directly. */
struct sgd_args {
    struct sgd sgd;
    long n;
    const float *gradients, *scale;
    float *weights;
    void *values;
};
struct momentum_args {
    struct momentum momentum;
    long n;
    const float *gradients, *scale;
    float *velocities, *weights;
    void *values;
};
struct adamw_args {
    struct adamw adamw;
    long n;
    const float *gradients, *scale;
    float *first_moments, *second_moments, *weights;
    void *values;
};
struct square_sum { /* *sum += the sum of squares; infinities and NaN propagate */
    long n;
    const float *gradients;
    double *sum;
};
/* Sets *scale to the factor on gradients, clip factor / loss scale. The norm that is clipped is
 * sqrt(*squares) / loss scale. *scale is NaN when *squares is not finite. */
struct clip {
    const double *squares;
    double limit, loss_scale;
    float *scale;
};

struct gradient_sum { /* sum += x */
    long n;
    const float *x;
    float *sum;
};
struct pack { /* y = x in the storage type, rounded to nearest even */
    long n;
    const float *x;
    void *y;
};

/* kernels/host/cross_attention.h */
struct cross_forward {
    struct cross_attention attention;
    const void *queries, *key_values;
    void *context;
    float *log_sums;
};
struct cross_backward {
    struct cross_attention attention;
    const void *dcontext, *queries, *key_values, *context;
    const float *log_sums;
    void *dqueries, *dkey_values;
};

/* Ops of experts, see kernels/host/route.h. */
struct route_forward {
    struct route route;
    const void *logits;
    float *shares;
    int32_t *places;
};
struct route_backward {
    struct route route;
    const float *dshares, *shares;
    const int32_t *places;
    void *dlogits;
};
struct passage_args {
    struct passage passage;
    const void *x;
    const float *shares;
    const int32_t *places;
    void *y;
};
struct share_gradient {
    struct passage passage;
    const void *dy, *x;
    const int32_t *places;
    float *dshares;
};

/* Ops of compressed and partial gradient exchanges, on fp32; kernels/host defines them. */
struct combine_args {
    long n;
    float a;
    const float *x;
    float b;
    const float *y;
    float *out;
};
struct quantise_args {
    struct quantiser quantiser;
    struct draw draw;
    uint64_t first;
    long n;
    const float *x;
    float *norms;
    uint32_t *codes;
};
struct dequantise_args {
    struct quantiser quantiser;
    long n;
    const float *norms;
    const uint32_t *codes;
    float *sum;
};
struct top_k_args {
    long n;
    float *x; /* top_k_take takes elements out of x, top_k_add adds elements to x */
    long k;
    uint32_t *indices;
    float *values;
};
struct orthogonalise_args {
    long rows, rank;
    float *columns;
};

/* Ops of gradient exchanges by Byzantine-robust aggregation, see kernels/host/robust.h. */
struct robust_trim_args {
    long n;
    int count, trim;
    const float *x;
    float scale;
    float *out;
};
struct robust_measure_args {
    long n;
    int count;
    const float *x;
    double *squares;
};
struct robust_weigh_args {
    int count, hostile;
    bool picks_one; /* true: Krum; false: the geometric median */
    const double *squares;
    double *weights;
};
struct robust_mix_args {
    long n;
    int count;
    const float *x;
    const double *weights;
    float scale;
    float *out;
};
struct falsify_args {
    long n;
    enum falsity falsity;
    float strength;
    struct draw draw;
    float *x;
};

// clang-format off
#define KERNELS(X)                                                                         \
    X(linear_forward, linear_forward) X(linear_input_gradient, linear_input_gradient)      \
    X(linear_weight_gradient, linear_weight_gradient)                                      \
    X(linear_bias_gradient, linear_bias_gradient)                                          \
    X(norm_forward, norm_forward) X(norm_backward, norm_backward)                          \
    X(head_norm_forward, head_norm_forward) X(head_norm_backward, head_norm_backward)      \
    X(rotary_forward, rotary) X(rotary_backward, rotary)                                   \
    X(flash_forward, flash_forward) X(flash_backward, flash_backward)                      \
    X(scores, scores) X(softmax, softmax) X(context, context)                              \
    X(context_probability_gradient, context_backward)                                      \
    X(context_value_gradient, context_backward) X(softmax_backward, softmax_backward)      \
    X(scores_query_gradient, scores_backward) X(scores_key_gradient, scores_backward)      \
    X(activation, activation_args) X(activation_gradient, activation_gradient)             \
    X(residual, residual_args) X(residual_norm, residual_norm)                             \
    X(residual_gradient, residual_gradient) X(sum_into, sum_into)                          \
    X(embedding, embedding_args) X(embedding_gradient, embedding_gradient)                 \
    X(loss_maxima, loss_maxima) X(loss_sums, loss_sums) X(loss_total, loss_total)          \
    X(loss_gradient, loss_gradient)                                                        \
    X(sgd, sgd_args) X(momentum, momentum_args) X(adamw, adamw_args)                       \
    X(square_sum, square_sum) X(clip, clip)                                                \
    X(gradient_sum, gradient_sum) X(pack, pack)
/* Kernels of gradient exchanges. A backend has all of them or none. */
#define EXCHANGE_KERNELS(X)                                                                \
    X(combine, combine_args) X(quantise, quantise_args) X(dequantise_add, dequantise_args)  \
    X(top_k_take, top_k_args) X(top_k_add, top_k_args)                                     \
    X(orthogonalise, orthogonalise_args)
/* Kernels of the host only. */
#define HOST_KERNELS(X)                                                                    \
    X(route_forward, route_forward) X(route_backward, route_backward)                      \
    X(spread, passage_args) X(gather, passage_args) X(share_gradient, share_gradient)      \
    X(cross_forward, cross_forward) X(cross_backward, cross_backward)                      \
    X(robust_trim, robust_trim_args) X(robust_measure, robust_measure_args)                \
    X(robust_weigh, robust_weigh_args) X(robust_mix, robust_mix_args)                      \
    X(falsify, falsify_args)
// clang-format on

#endif
