/* Seconds of one op on one GPU: matrix products by tiles and waves of thread blocks, attention by
 * the rate of its kernel, all other ops by their memory traffic. A profile holds a GPU's constants,
 * such as efficiencies, and optionally measured points: shapes of products with measured times. */
#include "sim/cost/compute.h"

#include "sim/cost/power.h"

#include <math.h>

/* When there are few output tiles, the inner dimension is split into parts with their own thread
 * blocks: at most MAX_SPLIT_K parts, each at least LEAST_PART_K long. */
enum { MAX_SPLIT_K = 8, LEAST_PART_K = 512 };

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Rate parameters of the matrix products of one data type. */
struct gemm_rate {
    double peak_flops_per_s, efficiency, half_k;
    /* share of the memory bandwidth that the sums of a split product reach */
    double memory_efficiency;
};

double gemm_efficiency(const struct profile *profile, enum dtype dtype)
{
    return profile->gemm_efficiency *
           (dtype_is_quantized(dtype) ? profile->narrow[dtype].efficiency : 1);
}

/* half_k is proportional to a type's rate: loading a tile's first operands takes the same time for
 * all types, and a type with twice the rate multiplies twice the inner dimension in that time. */
static struct gemm_rate gemm_rate(const struct gpu *gpu, const struct profile *profile,
                                  enum dtype dtype)
{
    struct gemm_rate rate = { gpu->peak_flops_per_s[dtype], gemm_efficiency(profile, dtype),
                              profile->gemm_half_k, profile->memory_efficiency };
    if (dtype_is_quantized(dtype)) {
        double half_k = profile->narrow[dtype].half_k;
        rate.half_k = half_k > 0 ? half_k : profile->gemm_half_k * 2 / dtype_bytes(dtype);
    }
    return rate;
}

/* `groups` products in one kernel, such as one for each expert. Each has an m x n result and inner
 * dimension k. */
struct gemm_shape {
    double groups, m, n, k;
    double efficiency; /* share of the rate that its rows' alignment allows */
};

/* Tiles of all groups run in whole waves: a partly filled last wave takes as long as a full one.
 * Each tile first loads its first operands, so its inner loop reaches half of its rate at an inner
 * dimension of half_k. */
static double tile_s(const struct gpu *gpu, const struct gemm_rate *rate,
                     const struct gemm_tile *tile, struct gemm_shape shape, double split)
{
    double k = shape.k / split;
    double tiles = shape.groups * ceil(shape.m * split / tile->m) * ceil(shape.n / tile->n);
    double waves = ceil(tiles / gpu->num_sms);
    double sm_flops_per_s = rate->peak_flops_per_s / gpu->num_sms;
    double tile_flops = 2.0 * tile->m * tile->n * (k + rate->half_k);
    return waves * tile_flops / (sm_flops_per_s * rate->efficiency * tile->efficiency);
}

/* Splits the inner dimension into `split` parts, whose fp32 sums are written and read once more. */
static double split_tile_s(const struct gpu *gpu, const struct gemm_rate *rate,
                           const struct gemm_tile *tile, struct gemm_shape shape, int split)
{
    double parts_s = tile_s(gpu, rate, tile, shape, split);
    double sums_bytes = split > 1 ? 2.0 * split * 4 * shape.groups * shape.m * shape.n : 0;
    return parts_s + sums_bytes / (rate->memory_efficiency * gpu->memory_bytes_per_s);
}

/* The time with the best tile and the best number of parts, at most `most`. */
static double best_of_tiles_s(const struct gpu *gpu, const struct profile *profile,
                              const struct gemm_rate *rate, struct gemm_shape shape, int most)
{
    double best_s = HUGE_VAL;
    for (int t = 0; t < profile->num_gemm_tiles; t++)
        for (int split = 1; split <= most && (split == 1 || shape.k / split >= LEAST_PART_K);
             split *= 2)
            best_s = fmin(best_s, split_tile_s(gpu, rate, &profile->gemm_tiles[t], shape, split));
    return best_s;
}

/* The time with the best tile and split; the library is assumed to choose these. */
static double best_tile_s(const struct gpu *gpu, const struct profile *profile,
                          const struct gemm_rate *rate, struct gemm_shape shape)
{
    return best_of_tiles_s(gpu, profile, rate, shape, MAX_SPLIT_K);
}

/* --- a range of constants --------------------------------------------------------------------- */

/* Whether a split product is the fastest somewhere in the range. With h = half_k, e = efficiency
 * and w = e / memory_efficiency, the time of s parts is (a_s + b_s h + c_s w) / e. So for each s,
 * the points (h, w) at which s parts are not faster than no split form a half-plane. If the
 * half-plane contains the four corners of the range, a rectangle, it contains all of it. */
static bool splits_in_range(const struct gpu *gpu, const struct profile *profile, enum dtype dtype,
                            struct gemm_shape shape)
{
    const struct product_range *range = profile->range;
    struct gemm_rate fast = gemm_rate(gpu, range->fast, dtype);
    struct gemm_rate slow = gemm_rate(gpu, range->slow, dtype);
    for (int corner = 0; shape.k >= 2 * LEAST_PART_K && corner < 4; corner++) {
        struct gemm_rate rate = corner % 2 == 0 ? fast : slow;
        rate.half_k = corner < 2 ? fast.half_k : slow.half_k;
        rate.memory_efficiency = corner % 2 == 0 ? slow.memory_efficiency : fast.memory_efficiency;
        rate.peak_flops_per_s *= shape.efficiency;
        if (best_tile_s(gpu, profile, &rate, shape) <
            best_of_tiles_s(gpu, profile, &rate, shape, 1))
            return true;
    }
    return false;
}

/* A lower bound of a product's time for all constants in the range of struct product_range. Without
 * a split the best tile does not depend on these constants, as the time with any tile is (k +
 * half_k) / efficiency times a factor that depends only on the tile. For a split product the bound
 * is its time with the fastest constants. */
static double ranged_tile_s(const struct gpu *gpu, const struct profile *profile, enum dtype dtype,
                            const struct gemm_rate *rate, struct gemm_shape shape)
{
    if (!profile->range->is_floor || !splits_in_range(gpu, profile, dtype, shape))
        return best_of_tiles_s(gpu, profile, rate, shape, 1);
    struct gemm_rate fast = gemm_rate(gpu, profile->range->fast, dtype);
    fast.peak_flops_per_s *= shape.efficiency;
    return best_tile_s(gpu, profile, &fast, shape);
}

/* The rate of the 16-bit type in which points were measured. Other types are assumed to deviate
 * from their model by the same factor. For a narrower type, the factor is taken at the inner
 * dimension that has the same number of bytes in 16 bits. */
static struct gemm_rate measured_rate(const struct gpu *gpu, const struct profile *profile)
{
    bool has_bf16 = gpu->peak_flops_per_s[DTYPE_BF16] > 0;
    return gemm_rate(gpu, profile, has_bf16 ? DTYPE_BF16 : DTYPE_FP16);
}

/* log(measured / modelled time) near a shape: measured points are weighted by their distance in
 * log2 dimensions, falling to zero at two octaves, so that distant shapes keep the model. */
static double measured_correction(const struct gpu *gpu, const struct profile *profile, double m,
                                  double n, double k)
{
    struct gemm_rate rate = measured_rate(gpu, profile);
    double weights = 0.05;
    double sum = 0;
    for (int i = 0; i < profile->num_gemm_points; i++) {
        const struct gemm_point *p = &profile->gemm_points[i];
        double dm = log2(p->m / m);
        double dn = log2(p->n / n);
        double dk = log2(p->k / k);
        double distance2 = dm * dm + dn * dn + dk * dk;
        if (distance2 > 4)
            continue;
        double weight = exp(-4 * distance2);
        double measured_s = 2 * p->m * p->n * p->k / p->flops_per_s;
        double modelled_s =
            best_tile_s(gpu, profile, &rate, (struct gemm_shape){ 1, p->m, p->n, p->k, 1 });
        weights += weight;
        sum += weight * log(measured_s / modelled_s);
    }
    return sum / weights;
}

static bool starts_at(double bytes, enum dtype dtype, double row_elements)
{
    return fmod(row_elements * dtype_bytes(dtype), bytes) == 0;
}

/* Rows that are not aligned to 16 bytes need kernels with narrower loads (NVIDIA, Deep Learning
 * Performance guide: multiples of 8 elements in 16 bits). */
static bool is_aligned(enum dtype dtype, double row_elements)
{
    return starts_at(16, dtype, row_elements);
}

/* The share of its rate that an unaligned product reaches. Ampere's asynchronous copies to shared
 * memory move 16, 8 or 4 bytes (PTX ISA, cp.async), so for rows aligned to 4 bytes it is the square
 * root of the share for other unaligned rows. */
static double alignment_efficiency(const struct profile *profile, enum dtype dtype, double m,
                                   double n, double k)
{
    if (is_aligned(dtype, m) && is_aligned(dtype, n) && is_aligned(dtype, k))
        return 1;
    bool is_copied = starts_at(4, dtype, m) && starts_at(4, dtype, n) && starts_at(4, dtype, k);
    double odd = profile->gemm_unaligned_efficiency;
    return is_copied ? sqrt(odd) : odd;
}

/* `sum_bytes` of `bytes` belong to a sum to which the product is added. A tile reads and writes its
 * part of the sum after its multiplications; the multiplications of other tiles overlap part of
 * this traffic. */
static double product_s(const struct gpu *gpu, const struct profile *profile, enum dtype dtype,
                        struct gemm_shape shape, double bytes, double sum_bytes)
{
    double m = shape.m, n = shape.n, k = shape.k;
    struct gemm_rate rate = gemm_rate(gpu, profile, dtype);
    rate.peak_flops_per_s *= shape.efficiency;
    double multiply_s = profile->range ? ranged_tile_s(gpu, profile, dtype, &rate, shape)
                                       : best_tile_s(gpu, profile, &rate, shape);
    double loaded = dtype_is_quantized(dtype) ? dtype_bytes(dtype) / 2 : 1;
    if (profile->num_gemm_points > 0)
        multiply_s *= exp(measured_correction(gpu, profile, m, n, k * loaded));
    double bytes_per_s = profile->gemm_memory_efficiency * gpu->memory_bytes_per_s;
    double exposed_bytes = profile->gemm_sum_exposed * sum_bytes;
    double speed = profile->sustained * power_speed(gpu, profile);
    return larger(multiply_s / speed, (bytes - exposed_bytes) / bytes_per_s) +
           exposed_bytes / bytes_per_s + profile->kernel_s;
}

double gemm_s(const struct gpu *gpu, const struct profile *profile, enum dtype dtype, double m,
              double n, double k, double bytes)
{
    double aligned = alignment_efficiency(profile, dtype, m, n, k);
    return product_s(gpu, profile, dtype, (struct gemm_shape){ 1, m, n, k, aligned }, bytes, 0);
}

/* Time of an op's products. The number of an expert's tokens need not be aligned, but its rows in
 * memory have the lengths of its widths, which are aligned. */
static double groups_s(const struct gpu *gpu, const struct profile *profile, const struct op *op)
{
    double aligned = op->region == REGION_EXPERTS
                         ? 1
                         : alignment_efficiency(profile, op->dtype, op->m, op->n, op->k);
    return product_s(gpu, profile, op->dtype,
                     (struct gemm_shape){ op->batch, op->m, op->n, op->k, aligned }, op->bytes,
                     op->sum_bytes);
}

double traffic_s(const struct gpu *gpu, const struct profile *profile, double bytes, double kernels)
{
    return bytes / (profile->memory_efficiency * gpu->memory_bytes_per_s) +
           kernels * profile->kernel_s;
}

/* Batched products of unfused attention. A short head dimension wastes part of each tile in both
 * products: it is the inner dimension of the scores' product and the narrow output dimension of the
 * context's product. The time is at least that of the memory traffic of the probabilities. */
static double batched_product_s(const struct gpu *gpu, const struct profile *profile,
                                const struct op *op)
{
    double head_dim = fmin(op->n, op->k);
    double filled = head_dim / (head_dim + profile->batched_gemm_half_dim);
    double rate_flops_per_s = profile->batched_gemm_efficiency * filled *
                              power_speed(gpu, profile) * gpu->peak_flops_per_s[op->dtype] *
                              (is_aligned(op->dtype, head_dim) ? 1 : profile->unaligned_efficiency);
    double memory_s = traffic_s(gpu, profile, op->bytes, op->kernels);
    return larger(op->flops / rate_flops_per_s + profile->kernel_s, memory_s);
}

/* Time of a flash attention kernel. Its rate is lower for short sequences, because half of each
 * diagonal block is masked. */
static double flash_s(const struct gpu *gpu, const struct profile *profile,
                      enum attention_kernel attention, const struct op *op)
{
    const struct attention_rate *rate = &profile->attention[attention];
    double efficiency =
        op->pass == PASS_FORWARD ? rate->forward_efficiency : rate->backward_efficiency;
    double rate_flops_per_s =
        efficiency * gpu->peak_flops_per_s[op->dtype] * op->n / (op->n + rate->half_seq);
    rate_flops_per_s *= power_speed(gpu, profile);
    double memory_s = traffic_s(gpu, profile, op->bytes, op->kernels);
    return larger(op->flops / rate_flops_per_s + profile->kernel_s, memory_s);
}

double measured_op_s(const struct profile *profile, const struct op *op)
{
    const struct kernel *kernel = kernel_find(profile->kernels, profile->num_kernels, (int)op->kind,
                                              (int)op->pass, op->variant ? op->variant : "");
    double size[NUM_KERNEL_SIZES];
    kernel_size_of(op, size);
    return kernel ? kernel_s(kernel, size) : -1;
}

/* One group of a grouped product. Devices with measured kernels have no grouped kernels and run the
 * groups one after another. */
static struct op group_of(const struct op *op)
{
    struct op group = *op;
    group.batch = 1;
    group.flops /= op->batch;
    group.bytes /= op->batch;
    group.sum_bytes /= op->batch;
    return group;
}

double op_s(const struct gpu *gpu, const struct profile *profile, enum attention_kernel attention,
            const struct op *op)
{
    if (op->kind == OP_GEMM && op->batch > 1 && profile->num_kernels > 0) {
        struct op group = group_of(op);
        return op->batch * op_s(gpu, profile, attention, &group);
    }
    double measured_s = profile->num_kernels > 0 ? measured_op_s(profile, op) : -1;
    if (measured_s >= 0)
        return measured_s;
    switch (op->kind) {
    case OP_GEMM:
        return groups_s(gpu, profile, op);
    case OP_SCORES:
    case OP_ATTENTION_VALUES:
    case OP_SCAN:
    case OP_INDEX_LOSS:
        return batched_product_s(gpu, profile, op);
    case OP_FLASH_ATTENTION:
        return flash_s(gpu, profile, attention, op);
    case OP_SOFTMAX:
    case OP_NORM:
    case OP_ACTIVATION:
    case OP_ROTARY:
    case OP_RESIDUAL:
    case OP_EMBEDDING:
    case OP_CROSS_ENTROPY:
    case OP_BIAS_GRAD:
    case OP_QUANTIZE:
    case OP_ROUTE:
    case OP_DISPATCH:
    case OP_SORT:
    case OP_HEADS:
    case OP_JOIN:
    case OP_CHOOSE:
    case OP_COMBINE:
        return traffic_s(gpu, profile, op->bytes, op->kernels);
    case OP_TENSOR_ENTER:
    case OP_TENSOR_LEAVE:
    case OP_TENSOR_JOIN:
    case OP_CP_ENTER:
    case OP_CP_LEAVE:
    case OP_EXPERT_ENTER:
    case OP_EXPERT_LEAVE:
    case OP_ALL_REDUCE:
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
    case OP_ALL_TO_ALL:
    case OP_SEND_RECEIVE:
        break;
    }
    return 0;
}
