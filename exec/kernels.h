/* exec/kernels.h - the compute of a step: one entry for each thing that a backend can run on a
 * stream.
 *
 * Arguments are values that are copied when the call is issued; what they point to must last until
 * it has run. Shapes, packings, what is saved and what may overlap are those of the headers in
 * kernels/host, which are the reference: another backend gives the same values up to rounding. */
#ifndef EXEC_KERNELS_H
#define EXEC_KERNELS_H

#include "exec/device.h"
#include "kernels/host/activation.h"
#include "kernels/host/attention.h"
#include "kernels/host/cross_entropy.h"
#include "kernels/host/embedding.h"
#include "kernels/host/norm.h"
#include "kernels/host/optimizer.h"
#include "kernels/host/quantise.h"
#include "kernels/host/residual.h"

/* x [rows, in], weight [out, in], bias [out] or NULL, y [rows, out]. */
struct linear_forward {
    long rows, out, in;
    const float *x, *weight, *bias;
    float *y;
};
struct linear_input_gradient {
    long rows, out, in;
    const float *dy, *weight;
    float *dx;
};
struct linear_weight_gradient { /* added to */
    long rows, out, in;
    const float *dy, *x;
    float *dweight;
};
struct linear_bias_gradient { /* added to */
    long rows, width;
    const float *dy;
    float *dbias;
};

/* `kind` is enum norm_kind; statistics: mean and rstd [2, rows], or rstd [rows]. */
struct norm_forward {
    struct norm norm;
    int kind;
    const float *x, *scale, *shift;
    float *y, *statistics;
};
struct norm_backward { /* dscale and dshift are added to */
    struct norm norm;
    int kind;
    const float *dy, *x, *scale, *statistics;
    float *dx, *dscale, *dshift;
};
struct head_norm_forward {
    struct attention attention;
    float epsilon;
    const float *scale; /* [2, head_dim]: queries', keys' */
    float *qkv, *inputs, *statistics;
};
struct head_norm_backward {
    struct attention attention;
    const float *scale, *inputs, *statistics;
    float *dqkv, *dscale;
};

/* In place; `turns` is the host's rotary_table. */
struct rotary {
    struct attention attention;
    const float *turns;
    float *qkv;
};

struct flash_forward {
    struct attention attention;
    const float *qkv;
    float *context, *log_sums, *scratch;
};
struct flash_backward {
    struct attention attention;
    const float *dcontext, *qkv, *context, *log_sums;
    float *dqkv, *scratch;
};
struct scores {
    struct attention attention;
    const float *qkv;
    float *scores;
};
struct softmax {
    struct attention attention;
    const float *scores;
    float *probabilities;
    uint8_t *keeps; /* NULL without dropout, as dropped */
    float *dropped;
};
struct context {
    struct attention attention;
    const float *dropped, *qkv;
    float *context;
};
struct context_backward { /* first op: ddropped; second: the values' part of dqkv */
    struct attention attention;
    const float *dcontext, *qkv, *dropped;
    float *ddropped, *dqkv;
};
struct softmax_backward {
    struct attention attention;
    const float *ddropped, *probabilities;
    const uint8_t *keeps;
    float *dscores;
};
struct scores_backward { /* the queries' part of dqkv, then the keys' */
    struct attention attention;
    const float *dscores, *qkv;
    float *dqkv;
};

struct activation_args {
    struct activation_shape shape;
    const float *x, *bias;
    float *y;
};
struct activation_gradient {
    struct activation_shape shape;
    const float *dy, *x, *bias;
    float *dx;
};

struct residual_args {
    struct residual residual;
    const float *x, *bias, *h;
    uint8_t *keeps;
    float *y;
};
struct residual_gradient {
    struct residual residual;
    const float *dy;
    const uint8_t *keeps;
    float *dx;
};
struct sum_into { /* sum += x */
    long n;
    const float *x;
    float *sum;
};

/* Positions are added where `positions` is given. */
struct embedding_args {
    struct embedding embedding;
    long seq;
    const int64_t *ids;
    const float *table, *positions;
    float *y;
};
struct embedding_gradient { /* added to */
    struct embedding embedding;
    long seq;
    const int64_t *ids;
    const float *dy;
    float *dtable, *dpositions;
};

struct loss_maxima {
    struct cross_entropy loss;
    const float *logits;
    float *maxima;
};
struct loss_sums {
    struct cross_entropy loss;
    const float *logits;
    const int64_t *targets;
    const float *maxima;
    float *sums;
};
struct loss_total { /* *total += the rows' losses */
    long rows;
    const int64_t *targets;
    const float *sums;
    double *total;
};
struct loss_gradient {
    struct cross_entropy loss;
    const float *logits;
    const int64_t *targets;
    const float *maxima, *sums;
    float scale;
    float *dlogits;
};

/* Shards of n elements. `scale` holds what gradients are multiplied by, on the device; a NaN there
 * leaves weights and moments as they are. */
struct sgd_args {
    struct sgd sgd;
    long n;
    const float *gradients, *scale;
    float *weights;
};
struct momentum_args {
    struct momentum momentum;
    long n;
    const float *gradients, *scale;
    float *velocities, *weights;
};
struct adamw_args {
    struct adamw adamw;
    long n;
    const float *gradients, *scale;
    float *first_moments, *second_moments, *weights;
};
struct square_sum { /* *sum += the squares; infinities and NaN stay in it */
    long n;
    const float *gradients;
    double *sum;
};
/* *scale = the clip factor of the norm sqrt(*squares) over the loss scale; a NaN when the squares
 * are not finite. */
struct clip {
    const double *squares;
    double limit, loss_scale;
    float *scale;
};

/* Rounds n values in place as they would be kept in 16 bits. */
struct round_args {
    long n;
    int dtype; /* enum dtype: bf16 or fp16 */
    float *x;
};

/* Of exchanges that are not all-reduce; kernels/host has their meaning. */
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
    float *x; /* taken out of, or added to */
    long k;
    uint32_t *indices;
    float *values;
};
struct orthogonalise_args {
    long rows, rank;
    float *columns;
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
    X(residual, residual_args) X(residual_gradient, residual_gradient)                     \
    X(sum_into, sum_into)                                                                  \
    X(embedding, embedding_args) X(embedding_gradient, embedding_gradient)                 \
    X(loss_maxima, loss_maxima) X(loss_sums, loss_sums) X(loss_total, loss_total)          \
    X(loss_gradient, loss_gradient)                                                        \
    X(sgd, sgd_args) X(momentum, momentum_args) X(adamw, adamw_args)                       \
    X(square_sum, square_sum) X(clip, clip) X(round, round_args)
/* A backend has all of these or none. */
#define EXCHANGE_KERNELS(X)                                                                \
    X(combine, combine_args) X(quantise, quantise_args) X(dequantise_add, dequantise_args)  \
    X(top_k_take, top_k_args) X(top_k_add, top_k_args)                                     \
    X(orthogonalise, orthogonalise_args)
// clang-format on

struct kernels; /* a backend's own: handles, tuned algorithms */

struct kernel_api {
    const char *name;
    struct kernels *(*open)(struct device *device, struct err *err);
    void (*close)(struct kernels *kernels);
    /* Scratch that either direction of the fused attention needs. */
    size_t (*flash_scratch_bytes)(const struct attention *attention);
#define X(name, args) \
    void (*name)(struct kernels * kernels, struct stream * stream, const struct args *args);
    KERNELS(X)
    EXCHANGE_KERNELS(X)
#undef X
};

extern const struct kernel_api kernels_host; /* on streams of device_host */

#endif
