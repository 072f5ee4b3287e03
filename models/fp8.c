#include "models/fp8.h"

/* Relative rates of products are typical, not measured: scales along the inner dimension are
 * applied outside the tensor cores of Hopper, and those of rows in the epilogue. */
const struct fp8_recipe fp8_recipes[NUM_FP8_RECIPES] = {
    [FP8_DELAYED] = { .summary = "One scale a tensor, from the largest values of earlier steps.",
                      .source = "Micikevicius et al. 2022, arXiv:2209.05433; TE DelayedScaling",
                      .reads = 1,
                      .kernels = 1,
                      .product_efficiency = 1,
                      .scales_tensor = true,
                      .keeps_weights = true },
    /* The largest value is sought, the scale made, then the tensor is read again. */
    [FP8_CURRENT] = { .summary = "One scale a tensor, from its own largest value.",
                      .source = "TE Float8CurrentScaling; torchao tensorwise",
                      .reads = 2,
                      .kernels = 3,
                      .product_efficiency = 1,
                      .scales_tensor = true,
                      .keeps_weights = true },
    /* Rows for one copy, columns for the other. */
    [FP8_ROWWISE] = { .summary = "One scale a row or column.",
                      .source = "torchao float8 rowwise",
                      .reads = 2,
                      .kernels = 2,
                      .product_efficiency = 0.9 },
    [FP8_MX] = { .summary = "One 8-bit scale for 32 values, in the tensor cores of Blackwell.",
                 .source = "OCP Microscaling formats v1.0 (2023); TE MXFP8BlockScaling",
                 .reads = 1,
                 .kernels = 2,
                 .scale_bytes = 1.0 / 32,
                 .product_efficiency = 1,
                 .keeps_weights = true,
                 .needs_blackwell = true },
    [FP8_BLOCK] = { .summary = "One fp32 scale for 128 values, or for 128 x 128 of a weight.",
                    .source = "DeepSeek-V3, arXiv:2412.19437, section 3.3; TE Float8BlockScaling",
                    .reads = 1,
                    .kernels = 2,
                    .scale_bytes = 4.0 / 128,
                    .product_efficiency = 0.85,
                    .keeps_weights = true },
};

double fp8_value_bytes(const struct fp8_recipe *recipe)
{
    return 1 + recipe->scale_bytes;
}

double fp8_quantize_bytes(const struct fp8_recipe *recipe, int copies, double values)
{
    return values * (2 * recipe->reads + copies * fp8_value_bytes(recipe));
}
