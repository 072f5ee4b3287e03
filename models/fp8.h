/* models/fp8.h - how linear layers are multiplied in fp8: one row for each recipe.
 *
 * Inputs, weights and output gradients of a block's linear layers are quantised from 16 bits by
 * kernels of their own; attention, norms and the output head stay in 16 bits. A copy along rows
 * serves the forward and the input gradient, one along columns the weight gradient. */
#ifndef MODELS_FP8_H
#define MODELS_FP8_H

#include <stdbool.h>

enum fp8_kind {
    FP8_DELAYED, /* a scale a tensor, of earlier steps' largest values */
    FP8_CURRENT, /* ... of its own largest value */
    FP8_ROWWISE,
    FP8_MX,
    FP8_BLOCK,
    NUM_FP8_RECIPES
};

struct fp8_recipe {
    const char *summary; /* one sentence */
    const char *source;
    double reads;              /* of the 16-bit tensor to quantise it, scales included */
    double kernels;            /* launches to quantise one tensor */
    double scale_bytes;        /* beside each value */
    double product_efficiency; /* rate of products relative to one scale a tensor */
    bool scales_tensor;        /* both copies hold the same values: hardware may do with one */
    bool keeps_weights;        /* weights can be kept and gathered in fp8 between steps */
    bool needs_blackwell;
};
extern const struct fp8_recipe fp8_recipes[NUM_FP8_RECIPES]; /* indexed by enum fp8_kind */

/* Bytes of one value in fp8 with its share of the scales. */
double fp8_value_bytes(const struct fp8_recipe *recipe);

/* Traffic of quantising `values` of 16 bits into so many copies. */
double fp8_quantize_bytes(const struct fp8_recipe *recipe, int copies, double values);

#endif
