/* The table of precisions. A recipe describes how linear layers quantise their operands to fewer
 * than 16 bits: its scales, and the cost of the kernels that make them. */
#include "models/precision.h"

const char *const precision_names[NUM_PRECISIONS + 1] = {
#define X(name, word) word,
    PRECISIONS(X)
#undef X
};

/* aligned_rows: 16 in fp8, 32 in mxfp8 and fp4 (Megatron Core, moe/moe_utils.py,
 * get_align_size_for_quantization). product_efficiency holds typical values, not measured ones: on
 * Hopper, scales along the inner dimension are applied outside the tensor cores, row scales in the
 * epilogue. */
static const struct recipe delayed = {
    .products = DTYPE_FP8,
    .scaling = SCALING_TENSOR,
    .reads = 1,
    .kernels = 1,
    .product_efficiency = 1,
    .weight_efficiency = 1,
    .keeps_weights = true,
    .aligned_rows = 16,
};
/* The tensor is read once for its largest value, which sets the scale, and once more to quantise
 * it. */
static const struct recipe current = {
    .products = DTYPE_FP8,
    .scaling = SCALING_TENSOR,
    .reads = 2,
    .kernels = 3,
    .product_efficiency = 1,
    .weight_efficiency = 1,
    .keeps_weights = true,
    .requantizes = true,
    .aligned_rows = 16,
};
/* One copy has a scale per row, the second copy a scale per column. */
static const struct recipe rowwise = {
    .products = DTYPE_FP8,
    .scaling = SCALING_ROW,
    .reads = 2,
    .kernels = 2,
    .product_efficiency = 0.9,
    .weight_efficiency = 1,
    .requantizes = true,
    .aligned_rows = 16,
};
static const struct recipe microscaled = {
    .products = DTYPE_FP8,
    .scaling = SCALING_BLOCK,
    .scale_bytes = 1.0 / 32,
    .reads = 1,
    .kernels = 2,
    .product_efficiency = 1,
    .weight_efficiency = 1,
    .scales_in_products = true,
    .keeps_weights = true,
    .requantizes = true,
    .aligned_rows = 32,
};
/* On Hopper a block's sum over 128 products is added to the result on the CUDA cores, for each
 * value of the result. If one operand has one scale for 128 x 128 values, as weights have, this is
 * one multiply-add by the other operand's scale. In weight gradients both operands have a scale for
 * each row, so the two scales are multiplied first. An H100's multiprocessor does 4,096 fp8
 * multiply-adds per cycle in its tensor cores and 128 in its CUDA cores. So a value takes 128/4096
 * + 1/128 = 5/128 cycles, and in weight gradients 128/4096 + 2/128 = 6/128 cycles. */
static const struct recipe blockwise = {
    .products = DTYPE_FP8,
    .scaling = SCALING_BLOCK,
    .scale_bytes = 4.0 / 128,
    .reads = 1,
    .kernels = 2,
    .product_efficiency = 0.85,
    .weight_efficiency = 5.0 / 6,
    .keeps_weights = true,
    .requantizes = true,
    .aligned_rows = 16,
};
/* One 8-bit scale per 16 values, and one fp32 scale per tensor, for which a first pass finds the
 * largest value. Inputs of weight gradients pass a Hadamard transform of 16 values, so quantising
 * costs about twice as much as to fp8 (an estimate, not measured). */
static const struct recipe nvfp4 = {
    .products = DTYPE_FP4,
    .scaling = SCALING_BLOCK,
    .scale_bytes = 1.0 / 16,
    .reads = 2,
    .kernels = 3,
    .product_efficiency = 1,
    .weight_efficiency = 1,
    .scales_in_products = true,
    .requantizes = true,
    .aligned_rows = 32,
};

const struct precision_row precision_rows[NUM_PRECISIONS] = {
    [PRECISION_FP32] = { .summary = "Everything in fp32.",
                         .source = "IEEE 754",
                         .values = DTYPE_FP32 },
    [PRECISION_FP16] = { .summary = "Values in fp16, fp32 master weights, a scaled loss.",
                         .source = "Micikevicius et al. 2018, arXiv:1710.03740",
                         .values = DTYPE_FP16,
                         .has_master = true },
    [PRECISION_BF16] = { .summary = "Values in bf16, fp32 master weights.",
                         .source = "Kalamkar et al. 2019, arXiv:1905.12322",
                         .values = DTYPE_BF16,
                         .has_master = true },
    [PRECISION_BF16_PURE] = { .summary = "Values, weights and moments only in bf16.",
                              .source = "Composer and llm-foundry, mixed_precision: PURE",
                              .values = DTYPE_BF16 },
    [PRECISION_FP8_DELAYED] = { .summary = "One scale per tensor, from the largest values of "
                                           "earlier steps.",
                                .source = "Micikevicius et al. 2022, arXiv:2209.05433; "
                                          "TE DelayedScaling",
                                .values = DTYPE_BF16,
                                .has_master = true,
                                .recipe = &delayed },
    [PRECISION_FP8_CURRENT] = { .summary = "One scale per tensor, from its own largest value.",
                                .source = "TE Float8CurrentScaling; torchao tensorwise",
                                .values = DTYPE_BF16,
                                .has_master = true,
                                .recipe = &current },
    [PRECISION_FP8_ROWWISE] = { .summary = "One scale per row or column.",
                                .source = "torchao float8 rowwise",
                                .values = DTYPE_BF16,
                                .has_master = true,
                                .recipe = &rowwise },
    [PRECISION_FP8_MX] = { .summary =
                               "One 8-bit scale for 32 values, in the tensor cores of Blackwell.",
                           .source = "OCP Microscaling formats v1.0 (2023); TE MXFP8BlockScaling",
                           .values = DTYPE_BF16,
                           .has_master = true,
                           .recipe = &microscaled },
    [PRECISION_FP8_BLOCK] = { .summary =
                                  "One fp32 scale for 128 values, or for 128 x 128 of a weight.",
                              .source = "DeepSeek-V3, arXiv:2412.19437, section 3.3; "
                                        "TE Float8BlockScaling",
                              .values = DTYPE_BF16,
                              .has_master = true,
                              .recipe = &blockwise },
    [PRECISION_NVFP4] = { .summary = "Four bits, with one 8-bit scale for 16 values and one scale "
                                     "per tensor.",
                          .source = "NVIDIA 2025, arXiv:2509.25149; TE NVFP4BlockScaling",
                          .values = DTYPE_BF16,
                          .has_master = true,
                          .recipe = &nvfp4 },
};

const struct recipe *precision_recipe(int precision)
{
    return precision_rows[precision].recipe;
}

enum dtype precision_value_dtype(int precision)
{
    return precision_rows[precision].values;
}

enum dtype precision_dtype(int precision)
{
    const struct precision_row *row = &precision_rows[precision];
    return row->recipe ? row->recipe->products : row->values;
}

double precision_bytes(int precision)
{
    return dtype_bytes(precision_value_dtype(precision));
}

double quantized_bytes(const struct recipe *recipe)
{
    return dtype_bytes(recipe->products) + recipe->scale_bytes;
}

double quantize_traffic_bytes(const struct recipe *recipe, int copies, double values)
{
    return values * (2 * recipe->reads + copies * quantized_bytes(recipe));
}

double transpose_traffic_bytes(const struct recipe *recipe, double read_bytes, double values)
{
    return read_bytes + 2 * values + quantize_traffic_bytes(recipe, 1, values);
}
