/* Fused attention: which way is taken, and what both of them need. */
#include "kernels/cuda/flash.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/head.cuh"
#include "kernels/cuda/reduce.cuh"

enum { ROWS_OF_A_BLOCK = THREADS / LANES };

/* A warp for each query of each head. The sum over keys of probability times its gradient is that
 * of context times its gradient, dropout or not. */
template <typename T> __global__ void find_row_dots(struct flash_backward a, float *row_dots)
{
    long seq = a.attention.seq, heads = a.attention.heads, n = a.attention.head_dim;
    long row = (long)blockIdx.x * ROWS_OF_A_BLOCK + threadIdx.x / LANES;
    if (row >= a.attention.sequences * heads * seq)
        return;
    head_place at = head_at(a.attention, row / seq / heads, row / seq % heads);
    long first = at.context + row % seq * at.context_stride;
    const T *context = (const T *)a.context + first, *dcontext = (const T *)a.dcontext + first;
    float sum = 0;
    for (long i = threadIdx.x % LANES; i < n; i += LANES)
        sum += value_of(context[i]) * value_of(dcontext[i]);
    sum = reduce_warp(sum, add());
    if (threadIdx.x % LANES == 0)
        row_dots[row] = sum;
}

/* 16 bits, a head size that tiles are made for, arrays that begin on multiples of 16 bytes, and
 * draws that decide over one row alone. */
template <typename... Pointers>
static bool takes_tiles(const struct launch *on, const struct attention &a, Pointers... arrays)
{
    bool is_aligned = rows_are_aligned<bf16>(0, arrays...);
    bool has_whole_draws = a.dropout.dropout == 0 || a.seq % 4 == 0;
    return is_aligned && has_whole_draws &&
           by_tile(on->storage, a.head_dim, [](auto, auto) { return cudaSuccess; }) == cudaSuccess;
}

size_t launch_flash_scratch_bytes(const struct attention *a)
{
    return sizeof(float) * (size_t)(a->sequences * a->heads * a->seq);
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
        return run_grid(on, grid, find_row_dots<decltype(type)>, *a, row_dots);
    });
    if (error != cudaSuccess)
        return error;
    return takes_tiles(on, at, a->qkv, a->dcontext, a->dqkv)
               ? flash_tiles_backward(on, *a, row_dots)
               : flash_plain_backward(on, *a, row_dots);
}
