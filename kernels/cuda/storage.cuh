/* kernels/cuda/storage.cuh - loads and stores values in device memory, which are fp32, bf16 or
 * fp16. Kernels compute in fp32, and values are rounded to nearest even when stored. */
#ifndef KERNELS_CUDA_STORAGE_CUH
#define KERNELS_CUDA_STORAGE_CUH

#include "kernels/cuda/ptx.cuh"

extern "C" {
#include "models/op.h"
}

struct bf16 {
    uint16_t bits;
};
struct fp16 {
    uint16_t bits;
};

__device__ __forceinline__ float value_of(float stored)
{
    return stored;
}
__device__ __forceinline__ float value_of(bf16 stored)
{
    return __uint_as_float((uint32_t)stored.bits << 16);
}
__device__ __forceinline__ float value_of(fp16 stored)
{
    return float_of_fp16_bits(stored.bits);
}

__device__ __forceinline__ void store(float *to, float value)
{
    *to = value;
}
__device__ __forceinline__ void store(bf16 *to, float value)
{
    to->bits = bf16_bits_of(value);
}
__device__ __forceinline__ void store(fp16 *to, float value)
{
    to->bits = fp16_bits_of(value);
}

/* N neighbours that are loaded or stored in one access. If N > 1, their address must be a multiple
 * of their total size, which is at most 16 bytes. */
template <typename T, int N> struct alignas(sizeof(T) * N) neighbours {
    T at[N];
};

/* How many of N neighbours fit in one access. */
template <typename T, int N> constexpr int of_access = N * sizeof(T) > 16 ? 16 / (int)sizeof(T) : N;

template <int N, typename T> __device__ __forceinline__ void load_values(const T *from, float *to)
{
    constexpr int M = of_access<T, N>;
#pragma unroll
    for (int first = 0; first < N; first += M) {
        neighbours<T, M> values = *reinterpret_cast<const neighbours<T, M> *>(from + first);
#pragma unroll
        for (int i = 0; i < M; i++)
            to[first + i] = value_of(values.at[i]);
    }
}

template <int N, typename T> __device__ __forceinline__ void store_values(T *to, const float *from)
{
    constexpr int M = of_access<T, N>;
#pragma unroll
    for (int first = 0; first < N; first += M) {
        neighbours<T, M> values;
#pragma unroll
        for (int i = 0; i < M; i++)
            store(&values.at[i], from[first + i]);
        if constexpr (sizeof values == 16)
            store_16_bytes(to + first, &values);
        else
            *reinterpret_cast<neighbours<T, M> *>(to + first) = values;
    }
}

/* The number of neighbours that a thread handles at once, as a type. */
template <int N> struct lanes {
    static constexpr int count = N;
};

/* Calls run(lanes<N>()) with 16 bytes of T if all accesses are aligned to 16 bytes, else with one
 * value. */
template <typename T, typename Run> cudaError_t by_lanes(bool is_aligned, const Run &run)
{
    return is_aligned ? run(lanes<16 / (int)sizeof(T)>()) : run(lanes<1>());
}

/* Whether rows of `width` values of T at each of the pointers are aligned to 16 bytes; NULL counts
 * as aligned. */
template <typename T, typename... Pointers> bool rows_are_aligned(long width, Pointers... first)
{
    return width * (long)sizeof(T) % 16 == 0 && (... && ((uintptr_t)first % 16 == 0));
}

/* Calls run(T()) with the storage type. */
template <typename Run> cudaError_t by_storage(enum dtype storage, const Run &run)
{
    switch (storage) {
    case DTYPE_FP32:
        return run(float());
    case DTYPE_BF16:
        return run(bf16());
    case DTYPE_FP16:
        return run(fp16());
    case DTYPE_FP8:
    case DTYPE_FP4:
    case NUM_DTYPES:
        break;
    }
    return cudaErrorInvalidValue;
}

#endif
