/* tests/cuda_on_host/cuda_runtime.h - the part of CUDA C++ that kernels/cuda needs, for a host
 * compiler. It replaces the toolkit's header, so that the unchanged sources of kernels are compiled
 * and run on grid.h. */
#ifndef TESTS_CUDA_ON_HOST_CUDA_RUNTIME_H
#define TESTS_CUDA_ON_HOST_CUDA_RUNTIME_H

extern "C" {
#include "tests/cuda_on_host/grid.h"
#include "tests/cuda_on_host/hollow.h"
}
#include "tests/cuda_on_host/runtime.h"

#include <math.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

#define threadIdx (grid_now->thread)
#define blockIdx  (grid_now->block)
#define blockDim  (grid_now->num_threads)
#define gridDim   (grid_now->num_blocks)

/* --- launching ---------------------------------------------------------------------------- */

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned along_x = 1, unsigned along_y = 1, unsigned along_z = 1)
        : x(along_x), y(along_y), z(along_z)
    {
    }
};
struct cudaLaunchConfig_t {
    dim3 grid, block; /* the names above are the toolkit's */
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    void *attrs;
    unsigned numAttrs;
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel *kernel, cudaFuncAttribute, int shared_bytes)
{
    return grid_ask_shared(reinterpret_cast<void *>(kernel), (size_t)shared_bytes)
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

/* A kernel launch with copies of its arguments. */
template <typename Call> struct grid_launch {
    struct grid_shape shape;
    Call call;
};

template <typename Call> void grid_call(void *call)
{
    (*static_cast<Call *>(call))();
}

inline double grid_threads(const struct grid_shape *shape)
{
    const struct grid_index *blocks = &shape->blocks, *threads = &shape->threads;
    return (double)blocks->x * blocks->y * blocks->z * threads->x * threads->y * threads->z;
}

template <typename Call> void grid_do_launch(void *args)
{
    auto *launch = static_cast<grid_launch<Call> *>(args);
    if (hollow_is_on())
        hollow_kernel(grid_threads(&launch->shape));
    else
        grid_run(&launch->shape, grid_call<Call>, &launch->call);
}

inline struct grid_shape grid_shape_of(const cudaLaunchConfig_t *config)
{
    return { { config->grid.x, config->grid.y, config->grid.z },
             { config->block.x, config->block.y, config->block.z },
             config->dynamicSmemBytes };
}

template <typename Call> cudaError_t grid_issue(const cudaLaunchConfig_t *config, const Call &call)
{
    grid_launch<Call> launch = { grid_shape_of(config), call };
    unsigned threads = config->block.x * config->block.y * config->block.z;
    if (threads == 0 || threads > MOST_THREADS)
        return cudaErrorInvalidConfiguration;
    return runtime_issue(config->stream, grid_do_launch<Call>, &launch, sizeof launch);
}

/* The kernel runs at once, whatever the stream. */
template <typename... Parameters>
cudaError_t grid_interpret(const cudaLaunchConfig_t *config, const void *kernel,
                           Parameters... parameters)
{
    const void *arguments[] = { &parameters... };
    struct grid_shape shape = grid_shape_of(config);
    return grid_interpreted_by(kernel, &shape, arguments) ? cudaSuccess : cudaErrorInvalidValue;
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
                               Arguments... arguments)
{
    if (!grid_may_share(reinterpret_cast<void *>(kernel), config->dynamicSmemBytes))
        return cudaErrorInvalidValue;
    if (grid_interpreted_by)
        return grid_interpret<Parameters...>(config, reinterpret_cast<void *>(kernel),
                                             arguments...);
    runtime_load(reinterpret_cast<uintptr_t>(kernel));
    return grid_issue(config, [=] { kernel(Parameters(arguments)...); });
}

/* --- functions of several threads --------------------------------------------------------- */

inline void __syncthreads()
{
    grid_meet_block(nullptr, nullptr);
}

inline void __syncwarp(unsigned = ~0u)
{
    grid_meet_warp(nullptr, nullptr);
}

struct grid_ballot {
    int given;
    unsigned votes;
};

inline void grid_count_ballots(void *const *offers, int count)
{
    unsigned votes = 0;
    for (int i = 0; i < count; i++)
        votes |= offers[i] && static_cast<grid_ballot *>(offers[i])->given ? 1u << i : 0;
    for (int i = 0; i < count; i++)
        if (offers[i])
            static_cast<grid_ballot *>(offers[i])->votes = votes;
}

inline unsigned __ballot_sync(unsigned, int given)
{
    grid_ballot ballot = { given != 0, 0 };
    grid_meet_warp(grid_count_ballots, &ballot);
    return ballot.votes;
}

template <typename V> struct grid_shuffle {
    V given, taken;
    int from;
};

template <typename V> void grid_do_shuffle(void *const *offers, int)
{
    for (int i = 0; i < WARP_LANES; i++) {
        grid_shuffle<V> *shuffle = static_cast<grid_shuffle<V> *>(offers[i]);
        if (shuffle)
            shuffle->taken = static_cast<grid_shuffle<V> *>(offers[shuffle->from])->given;
    }
}

template <typename V> V __shfl_sync(unsigned, V value, int from)
{
    grid_shuffle<V> shuffle = { value, value, from };
    grid_meet_warp(grid_do_shuffle<V>, &shuffle);
    return shuffle.taken;
}

template <typename V> V __shfl_xor_sync(unsigned, V value, int mask)
{
    return __shfl_sync(~0u, value, (int)threadIdx.x % WARP_LANES ^ mask);
}

/* --- functions of one thread -------------------------------------------------------------- */

inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}

inline unsigned __float_as_uint(float value)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float __uint_as_float(unsigned bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Each operation is rounded separately: the host's compiler must not fuse them. */
inline float __fmul_rn(float a, float b)
{
    return a * b;
}

inline float __fadd_rn(float a, float b)
{
    return a + b;
}

/* Threads are switched only at barriers, so this is atomic. */
inline unsigned atomicAdd(unsigned *at, unsigned more)
{
    unsigned before = *at;
    *at += more;
    return before;
}

inline unsigned atomicMin(unsigned *at, unsigned other)
{
    unsigned before = *at;
    *at = other < before ? other : before;
    return before;
}

inline int __ffs(int bits)
{
    return __builtin_ffs(bits);
}

#include "tests/cuda_on_host/ptx.h"

#endif
