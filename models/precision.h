/* models/precision.h - the number types that values are stored and multiplied in, one row per
 * precision.
 *
 * To add a precision, add a word to PRECISIONS and a row to precision.c: all differences between
 * precisions are in that table. With a recipe, the linear layers of blocks multiply in fewer than
 * 16 bits: separate kernels quantise their inputs, weights and output gradients from 16 bits, while
 * attention, norms and the output head stay in 16 bits. A copy with scales along rows serves the
 * forward and the input gradient, a copy with scales along columns the weight gradient. */
#ifndef MODELS_PRECISION_H
#define MODELS_PRECISION_H

#include "models/op.h"

#include <stdbool.h>

/* name, word in a plan's layout */
#define PRECISIONS(X)             \
    X(FP32, "fp32")               \
    X(FP16, "fp16")               \
    X(BF16, "bf16")               \
    X(BF16_PURE, "bf16-pure")     \
    X(FP8_DELAYED, "fp8")         \
    X(FP8_CURRENT, "fp8-cs")      \
    X(FP8_ROWWISE, "fp8-rowwise") \
    X(FP8_MX, "fp8-mx")           \
    X(FP8_BLOCK, "fp8-block")     \
    X(NVFP4, "nvfp4")
enum precision {
#define X(name, word) PRECISION_##name,
    PRECISIONS(X)
#undef X
        NUM_PRECISIONS
};
extern const char *const precision_names[NUM_PRECISIONS + 1]; /* NULL-terminated */

/* Which values share a scale. */
enum scaling { SCALING_TENSOR, SCALING_ROW, SCALING_BLOCK };

struct recipe {
    enum dtype products; /* type of a linear layer's inputs, weights and output gradients */
    enum scaling scaling;
    double scale_bytes; /* scale bytes per value */
    double reads;       /* how often the 16-bit tensor is read to find its scales and quantise it */
    double kernels;     /* launches to quantise one tensor */
    double product_efficiency; /* rate of matrix products relative to their rate with one scale per
                                  tensor */
    double weight_efficiency;  /* rate of weight gradients relative to that of the other products */
    bool scales_in_products;   /* the matrix units apply the scales where the GPU can
                                  (sim/collective/generation.h) */
    int aligned_rows;          /* an expert's rows are padded to a multiple of this number */
    bool keeps_weights;        /* weights can be kept and gathered quantised between steps */
    bool requantizes;          /* quantising a value again later gives the same result, which is not
                                  so if scales come from earlier steps and change in between */
};

struct precision_row {
    const char *summary; /* one sentence */
    const char *source;
    enum dtype values;           /* type of activations and of weights that are not quantised */
    bool has_master;             /* the optimizer updates separate fp32 weights */
    const struct recipe *recipe; /* NULL: products are in type `values` too */
};
extern const struct precision_row precision_rows[NUM_PRECISIONS]; /* indexed by enum precision */

const struct recipe *precision_recipe(int precision); /* NULL: nothing is quantised */
enum dtype precision_value_dtype(int precision);      /* type of activations and stored weights */
/* type of most products' inputs; MFU refers to the GPU's peak for this type */
enum dtype precision_dtype(int precision);
double precision_bytes(int precision); /* bytes of one value of precision_value_dtype() */

/* Bytes of one quantised value, with the scales' bytes divided over the values. */
double quantized_bytes(const struct recipe *recipe);

/* Traffic of quantising `values` 16-bit values into `copies` copies. */
double quantize_traffic_bytes(const struct recipe *recipe, int copies, double values);

/* Traffic of two kernels that make the copy along columns of `values` values: one reads
 * `read_bytes` and writes the transposed values in 16 bits, another quantises these. */
double transpose_traffic_bytes(const struct recipe *recipe, double read_bytes, double values);

#endif
