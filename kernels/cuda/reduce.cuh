/* kernels/cuda/reduce.cuh - sums and maxima over the threads of a warp or a block, in a fixed
 * order, and prefix sums of integers. */
#ifndef KERNELS_CUDA_REDUCE_CUH
#define KERNELS_CUDA_REDUCE_CUH

#include "kernels/cuda/ptx.cuh"

enum { LANES = 32, MOST_WARPS_OF_A_BLOCK = 32 };

struct add {
    template <typename V> __device__ __forceinline__ V operator()(V a, V b) const
    {
        return a + b;
    }
};

/* The larger value; ignores NaN, as fmaxf does. */
struct larger {
    __device__ __forceinline__ float operator()(float a, float b) const
    {
        return fmaxf(a, b);
    }
};

/* Reduces over a warp; every thread gets the result. */
template <typename V, typename Op> __device__ __forceinline__ V reduce_warp(V value, const Op &op)
{
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        value = op(value, __shfl_xor_sync(~0u, value, distance));
    return value;
}

/* Reduces over a block of whole warps; every thread gets the result. `empty` is the neutral value.
 * `parts` is shared memory for MOST_WARPS_OF_A_BLOCK values; the previous reduction may have used
 * it. */
template <typename V, typename Op>
__device__ __forceinline__ V reduce_block(V value, V empty, const Op &op, V *parts)
{
    int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;
    value = reduce_warp(value, op);
    __syncthreads();
    if (lane == 0)
        parts[warp] = value;
    __syncthreads();
    return reduce_warp(lane < (int)blockDim.x / LANES ? parts[lane] : empty, op);
}

/* before: the sum over the threads of a block before this thread; all: the sum over all its
 * threads. */
struct scan {
    uint32_t before, all;
};
__device__ __forceinline__ struct scan scan_block(uint32_t value, uint32_t *parts)
{
    int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;
    struct scan scan = { 0, 0 };
    uint32_t sum = value;
#pragma unroll
    for (int distance = 1; distance < LANES; distance *= 2) {
        uint32_t other = __shfl_sync(~0u, sum, lane < distance ? lane : lane - distance);
        sum += lane < distance ? 0 : other;
    }
    __syncthreads();
    if (lane == LANES - 1)
        parts[warp] = sum;
    __syncthreads();
    for (int i = 0; i < (int)blockDim.x / LANES; i++) {
        scan.before += i < warp ? parts[i] : 0;
        scan.all += parts[i];
    }
    scan.before += sum - value;
    return scan;
}

/* The block's sum over a row. part(i) gives the sum of the N neighbours from i on. */
template <int N, typename Part>
__device__ __forceinline__ float sum_row(long width, float *parts, const Part &part)
{
    float sum = 0;
    for (long i = (long)threadIdx.x * N; i < width; i += (long)blockDim.x * N)
        sum += part(i);
    return reduce_block(sum, 0.0F, add(), parts);
}

#endif
