/* Fused attention: the choice between tiles and plain code (flash.cuh), and what both need. */
#include "kernels/cuda/flash.cuh"
#include "kernels/cuda/grid.cuh"

enum { LANES_OF_A_ROW = 8, ROWS_OF_A_BLOCK = THREADS / LANES_OF_A_ROW };

/* Computes for each token and head the dot product of the context with its gradient. With or
 * without dropout this equals the sum over keys of probability x its gradient, which the backward
 * needs. */
template <typename T, int N> __global__ void find_row_dots(struct flash_backward a, float *row_dots)
{
    long seq = a.attention.seq, heads = a.attention.heads, n = a.attention.head_dim;
    long row = (long)blockIdx.x * ROWS_OF_A_BLOCK + threadIdx.x / LANES_OF_A_ROW;
    if (row >= a.attention.sequences * seq * heads)
        return;
    float sum = 0, context[N], dcontext[N];
    for (long i = threadIdx.x % LANES_OF_A_ROW * N; i < n; i += LANES_OF_A_ROW * N) {
        load_values<N>((const T *)a.context + row * n + i, context);
        load_values<N>((const T *)a.dcontext + row * n + i, dcontext);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum += context[j] * dcontext[j];
    }
#pragma unroll
    for (int distance = LANES_OF_A_ROW / 2; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(~0u, sum, distance);
    long token = row / heads, head = row % heads;
    if (threadIdx.x % LANES_OF_A_ROW == 0)
        row_dots[(token / seq * heads + head) * seq + token % seq] = sum;
}

/* Whether tiles apply: 16-bit values, a supported head size, arrays aligned to 16 bytes, and, with
 * dropout, a sequence length that is a multiple of the 4 elements of a draw. */
template <typename... Pointers>
static bool takes_tiles(const struct launch *on, const struct attention &a, Pointers... arrays)
{
    bool is_aligned = rows_are_aligned<bf16>(0, arrays...);
    bool has_whole_draws = a.dropout.dropout == 0 || a.seq % 4 == 0;
    return is_aligned && has_whole_draws &&
           by_tile(on->storage, a.head_dim, [](auto, auto) { return cudaSuccess; }) == cudaSuccess;
}

/* Values of row_dots, up to a multiple of 16 bytes. */
static long row_dots_values(const struct attention &a)
{
    return ceil_div(a.sequences * a.heads * a.seq, 4) * 4;
}

size_t launch_flash_scratch_bytes(const struct attention *a)
{
    return sizeof(float) * (size_t)(row_dots_values(*a) + head_parts_values(*a));
}

cudaError_t launch_flash_forward(const struct launch *on, const struct flash_forward *a)
{
    return takes_tiles(on, a->attention, a->qkv, a->context) ? flash_tiles_forward(on, *a)
                                                             : flash_plain_forward(on, *a);
}

cudaError_t launch_flash_backward(const struct launch *on, const struct flash_backward *a)
{
    const struct attention &at = a->attention;
    float *row_dots = (float *)a->scratch;
    struct grid grid = { .blocks = ceil_div(at.sequences * at.heads * at.seq, ROWS_OF_A_BLOCK),
                         .threads = THREADS };
    cudaError_t error = by_storage(on->storage, [&](auto type) {
        typedef decltype(type) T;
        return by_lanes<T>(
            rows_are_aligned<T>(at.head_dim, a->context, a->dcontext), [&](auto lanes) {
                return run_grid(on, grid, find_row_dots<T, lanes.count>, *a, row_dots);
            });
    });
    if (error != cudaSuccess)
        return error;
    return takes_tiles(on, at, a->qkv, a->dcontext, a->dqkv)
               ? flash_tiles_backward(on, *a, row_dots, row_dots + row_dots_values(at))
               : flash_plain_backward(on, *a, row_dots);
}
