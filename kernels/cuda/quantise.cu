/* Quantises gradients with the same bits as kernels/host/quantise.c: norms are summed in the host's
 * order, and no multiply-add is fused. */
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/reduce.cuh"

/* --- norms -------------------------------------------------------------------------------- */

/* The order of the host's gradient_squares: lane j sums every 8th element from j on; the first lane
 * also sums the remainder. SUM_LANES threads sum a bucket (the elements that share a norm). */
enum { SUM_LANES = 8, BUCKETS_OF_A_BLOCK = THREADS / SUM_LANES };

__device__ __forceinline__ double lane_squares(const float *x, long n, int lane)
{
    double sum = 0;
    long whole = n / SUM_LANES * SUM_LANES;
    for (long i = lane; i < whole; i += SUM_LANES)
        sum += (double)x[i] * (double)x[i]; /* the square of a float is exact */
    for (long i = whole; i < n && lane == 0; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

__device__ __forceinline__ double add_lanes(double sum)
{
    int first = (int)threadIdx.x % LANES / SUM_LANES * SUM_LANES;
    double all = 0;
    for (int lane = 0; lane < SUM_LANES; lane++)
        all += __shfl_sync(~0u, sum, first + lane);
    return all;
}

__global__ void find_norms(struct quantise_args a)
{
    long bucket = (long)blockIdx.x * BUCKETS_OF_A_BLOCK + (int)threadIdx.x / SUM_LANES;
    int lane = (int)threadIdx.x % SUM_LANES;
    long first = bucket * a.quantiser.bucket, left = a.n - first;
    long count = left < a.quantiser.bucket ? left : a.quantiser.bucket;
    double squares = add_lanes(left > 0 ? lane_squares(a.x + first, count, lane) : 0);
    float norm = (float)sqrt(squares);
    if (left > 0 && lane == 0)
        a.norms[bucket] = isfinite(norm) ? norm : __uint_as_float(0x7fc00000u);
}

/* --- codes -------------------------------------------------------------------------------- */

/* The code of element i, drawn with `word`. */
__device__ __forceinline__ int code_of(const struct quantise_args &a, long i, uint32_t word)
{
    float norm = a.norms[i / a.quantiser.bucket], x = a.x[i];
    float steps_per_unit = (float)a.quantiser.levels / norm;
    float dither = (float)(int)(word >> 8) * 0x1p-24F;
    if (!isfinite(norm) || !isfinite(steps_per_unit))
        return 0;
    int level = (int)__fadd_rn(__fmul_rn(fabsf(x), steps_per_unit), dither);
    int kept = level < a.quantiser.levels ? level : a.quantiser.levels;
    return x < 0 ? -kept : kept;
}

/* A thread makes one word from the codes in it; the word's first and last codes may be partly in
 * neighbouring words. */
__global__ void pack_codes(struct quantise_args a, long num_words)
{
    long word = own_element<1>();
    if (word >= num_words)
        return;
    int width = a.quantiser.bits;
    uint32_t mask = (1u << width) - 1, packed = 0;
    long begin = 32 * word, first = begin / width;
    philox_block block = philox(a.draw, (a.first + (uint64_t)first) / 4);
    for (long i = first; i < a.n && i * width < begin + 32; i++) {
        uint64_t element = a.first + (uint64_t)i;
        if (i > first && element % 4 == 0)
            block = philox(a.draw, element / 4);
        uint32_t code = (uint32_t)code_of(a, i, word_of(block, (uint32_t)element % 4)) & mask;
        int shift = (int)(i * width - begin);
        packed |= shift < 0 ? code >> -shift : code << shift;
    }
    a.codes[word] = packed;
}

/* The highest bit of a code is its sign. */
__device__ __forceinline__ int read_code(const uint32_t *codes, int width, long i)
{
    uint32_t mask = (1u << width) - 1, sign = 1u << (width - 1);
    long word = i * width / 32;
    int shift = (int)(i * width % 32);
    uint32_t code = codes[word] >> shift;
    if (shift + width > 32)
        code |= codes[word + 1] << (32 - shift);
    return (int)((code & mask) ^ sign) - (int)sign;
}

__global__ void add_codes(struct dequantise_args a)
{
    long i = own_element<1>();
    if (i >= a.n)
        return;
    float unit = a.norms[i / a.quantiser.bucket] / (float)a.quantiser.levels;
    float value = __fmul_rn((float)read_code(a.codes, a.quantiser.bits, i), unit);
    a.sum[i] = __fadd_rn(a.sum[i], value);
}

cudaError_t launch_quantise(const struct launch *on, const struct quantise_args *a)
{
    long num_buckets = ceil_div(a->n, a->quantiser.bucket);
    long num_words = ceil_div(a->n * a->quantiser.bits, 32);
    struct grid buckets = { .blocks = ceil_div(num_buckets, BUCKETS_OF_A_BLOCK),
                            .threads = THREADS };
    cudaError_t error = run_grid(on, buckets, find_norms, *a);
    return error == cudaSuccess
               ? run_grid(on, grid_of_elements(num_words, 1), pack_codes, *a, num_words)
               : error;
}

cudaError_t launch_dequantise_add(const struct launch *on, const struct dequantise_args *a)
{
    return run_grid(on, grid_of_elements(a->n, 1), add_codes, *a);
}
