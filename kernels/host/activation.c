/* The activation between the two linear layers of the feed-forward on the CPU, forward and
 * backward. */
#include "kernels/host/activation.h"

#include "kernels/host/vector.h"

#include <assert.h>

/* Values of an activation function and its derivative at one x. */
struct slope {
    float value, derivative;
};

/* value: 1 / (1 + e^-x); rest: 1 - value, computed without cancellation. */
struct sigmoid {
    float value, rest;
};

INLINED struct sigmoid sigmoid(float x)
{
    float e = exp_f32(-x);
    float value = 1 / (1 + e);
    return (struct sigmoid){ .value = value, .rest = e * value };
}

INLINED struct slope silu(float x)
{
    struct sigmoid s = sigmoid(x);
    return (struct slope){ .value = x * s.value, .derivative = s.value + x * s.value * s.rest };
}

INLINED struct slope gelu(float x)
{
    const float two_sqrt_two_over_pi = 1.5957691216057308F, cubic = 0.044715F;
    struct sigmoid s = sigmoid(two_sqrt_two_over_pi * (x + cubic * x * x * x));
    float du = two_sqrt_two_over_pi * (1 + 3 * cubic * x * x);
    return (struct slope){ .value = x * s.value,
                           .derivative = s.value + x * s.value * s.rest * du };
}

INLINED struct slope relu(float x)
{
    return (struct slope){ .value = x > 0 ? x : 0, .derivative = x > 0 ? 1 : 0 };
}

INLINED struct slope relu2(float x)
{
    float positive = x > 0 ? x : 0;
    return (struct slope){ .value = positive * positive, .derivative = 2 * positive };
}

/* Defines the loops over a row for one activation function, so that the compiler can inline it. */
#define PLAIN_ROWS(name, function)                                                              \
    EACH_MACHINE                                                                                \
    static void name##_forward(long width, const float *x, const float *bias, float *y)         \
    {                                                                                           \
        SAME_OR_APART                                                                           \
        for (long i = 0; i < width; i++)                                                        \
            y[i] = function(x[i] + bias[i]).value;                                              \
    }                                                                                           \
    EACH_MACHINE                                                                                \
    static void name##_backward(long width, const float *dy, const float *x, const float *bias, \
                                float *dx)                                                      \
    {                                                                                           \
        SAME_OR_APART                                                                           \
        for (long i = 0; i < width; i++)                                                        \
            dx[i] = dy[i] * function(x[i] + bias[i]).derivative;                                \
    }

#define GATED_ROWS(name, function)                                                              \
    EACH_MACHINE                                                                                \
    static void name##_forward(long width, const float *x, const float *bias, float *y)         \
    {                                                                                           \
        SAME_OR_APART                                                                           \
        for (long i = 0; i < width; i++) {                                                      \
            float gate = x[2 * i] + bias[2 * i], up = x[2 * i + 1] + bias[2 * i + 1];           \
            y[i] = function(gate).value * up;                                                   \
        }                                                                                       \
    }                                                                                           \
    EACH_MACHINE                                                                                \
    static void name##_backward(long width, const float *dy, const float *x, const float *bias, \
                                float *dx)                                                      \
    {                                                                                           \
        SAME_OR_APART                                                                           \
        for (long i = 0; i < width; i++) {                                                      \
            float gate = x[2 * i] + bias[2 * i], up = x[2 * i + 1] + bias[2 * i + 1];           \
            struct slope at = function(gate);                                                   \
            dx[2 * i] = dy[i] * up * at.derivative;                                             \
            dx[2 * i + 1] = dy[i] * at.value;                                                   \
        }                                                                                       \
    }

PLAIN_ROWS(gelu_row, gelu)
PLAIN_ROWS(relu_row, relu)
PLAIN_ROWS(relu2_row, relu2)
GATED_ROWS(swiglu_row, silu)
GATED_ROWS(geglu_row, gelu)

/* The functions that compute a row of one activation, forward and backward. */
struct activation_rows {
    long inputs; /* inputs per output */
    void (*forward)(long width, const float *x, const float *bias, float *y);
    void (*backward)(long width, const float *dy, const float *x, const float *bias, float *dx);
};

static struct activation_rows rows_of(enum activation_kind kind)
{
    switch (kind) {
    case ACTIVATION_GELU:
        return (struct activation_rows){ 1, gelu_row_forward, gelu_row_backward };
    case ACTIVATION_RELU:
        return (struct activation_rows){ 1, relu_row_forward, relu_row_backward };
    case ACTIVATION_RELU2:
        return (struct activation_rows){ 1, relu2_row_forward, relu2_row_backward };
    case ACTIVATION_SWIGLU:
        return (struct activation_rows){ 2, swiglu_row_forward, swiglu_row_backward };
    case ACTIVATION_GEGLU:
        return (struct activation_rows){ 2, geglu_row_forward, geglu_row_backward };
    }
    assert(0 && "not an activation");
    return (struct activation_rows){ 0 };
}

long activation_inputs(const struct activation_shape *shape)
{
    return rows_of(shape->kind).inputs * shape->width;
}

/* Rows are processed in parts of this length; a missing bias is replaced by PART zeros. */
enum { PART = 256 };
static const float no_bias[2 * PART];

void activation_forward(const struct activation_shape *shape, const float *x, const float *bias,
                        float *y)
{
    struct activation_rows rows = rows_of(shape->kind);
    for (long row = 0; row < shape->rows; row++)
        for (long from = 0; from < shape->width; from += PART) {
            long n = shape->width - from < PART ? shape->width - from : PART;
            long value = row * shape->width + from;
            const float *part_bias = bias ? bias + rows.inputs * from : no_bias;
            rows.forward(n, x + rows.inputs * value, part_bias, y + value);
        }
}

void activation_backward(const struct activation_shape *shape, const float *dy, const float *x,
                         const float *bias, float *dx)
{
    struct activation_rows rows = rows_of(shape->kind);
    for (long row = 0; row < shape->rows; row++)
        for (long from = 0; from < shape->width; from += PART) {
            long n = shape->width - from < PART ? shape->width - from : PART;
            long value = row * shape->width + from;
            const float *part_bias = bias ? bias + rows.inputs * from : no_bias;
            rows.backward(n, dy + value, x + rows.inputs * value, part_bias,
                          dx + rows.inputs * value);
        }
}
