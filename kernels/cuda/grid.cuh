/* kernels/cuda/grid.cuh - helpers that start a kernel. */
#ifndef KERNELS_CUDA_GRID_CUH
#define KERNELS_CUDA_GRID_CUH

#include "kernels/cuda/launch.h"
#include "kernels/cuda/storage.cuh"

struct grid {
    long blocks; /* 0: no kernel runs */
    int threads; /* per block; whole warps */
    size_t shared_bytes = 0;
    int blocks_y = 1;
};

inline long ceil_div(long a, long b)
{
    return (a + b - 1) / b;
}

inline long least(long a, long b)
{
    return a < b ? a : b;
}

/* A kernel must request shared memory beyond this size per block. */
enum { SHARED_BYTES_UNASKED = 48 << 10 };

template <typename... Parameters, typename... Arguments>
cudaError_t run_grid(const struct launch *on, const struct grid &grid,
                     void (*kernel)(Parameters...), Arguments... arguments)
{
    if (grid.blocks == 0)
        return cudaSuccess;
    if (grid.shared_bytes > SHARED_BYTES_UNASKED) {
        cudaError_t error = cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)grid.shared_bytes);
        if (error != cudaSuccess)
            return error;
    }
    dim3 blocks((unsigned)grid.blocks, (unsigned)grid.blocks_y), threads((unsigned)grid.threads);
    cudaLaunchConfig_t config = { blocks, threads, grid.shared_bytes, on->stream, NULL, 0 };
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/* A grid with one thread for each `lanes` of n elements. */
enum { THREADS = 256 };
inline struct grid grid_of_elements(long n, int lanes)
{
    return { .blocks = ceil_div(n, (long)THREADS * lanes), .threads = THREADS };
}

/* Index of the thread's first element. */
template <int N> __device__ __forceinline__ long own_element()
{
    return ((long)blockIdx.x * THREADS + threadIdx.x) * N;
}

#endif
