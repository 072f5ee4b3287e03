/* kernels/cuda/flash.cuh - two implementations of fused attention: tiles on tensor cores for common
 * head sizes, and plain code for every size and type. flash.cu chooses.
 *
 * Both save the same log sums (kernels/host/attention.h). row_dots[sequences, heads, seq] and
 * part_sums (head_parts) are scratch memory of the backward. */
#ifndef KERNELS_CUDA_FLASH_CUH
#define KERNELS_CUDA_FLASH_CUH

#include "kernels/cuda/launch.h"
#include "kernels/cuda/storage.cuh"

#include <math.h>

/* Constants to compute exponentials as powers of 2. */
constexpr float LOG2_E = 1.4426950408889634F, LN_2 = 0.6931471805599453F;

/* Whether tiles of a type and a head size are compiled. Most tests compile 6 of the 10
 * combinations, which cover each type and each size (Makefile). */
#ifdef FEWER_TILES
constexpr bool has_tiles(bf16, int head_dim)
{
    return head_dim == 64 || head_dim == 80 || head_dim == 128;
}
constexpr bool has_tiles(fp16, int head_dim)
{
    return head_dim == 64 || head_dim == 96 || head_dim == 112;
}
#else
template <typename T> constexpr bool has_tiles(T, int)
{
    return true;
}
#endif

template <typename T, int HEAD_DIM, typename Run> cudaError_t with_tiles(const Run &run)
{
    if constexpr (has_tiles(T(), HEAD_DIM))
        return run(T(), lanes<HEAD_DIM>());
    else
        return cudaErrorInvalidValue;
}

/* Calls run(T(), lanes<HEAD_DIM>()) for 16-bit types and the head sizes that tiles support. */
template <typename Run> cudaError_t by_tile(enum dtype storage, long head_dim, const Run &run)
{
    auto by_head = [&](auto type) {
        typedef decltype(type) T;
        return head_dim == 64    ? with_tiles<T, 64>(run)
               : head_dim == 80  ? with_tiles<T, 80>(run)
               : head_dim == 96  ? with_tiles<T, 96>(run)
               : head_dim == 112 ? with_tiles<T, 112>(run)
               : head_dim == 128 ? with_tiles<T, 128>(run)
                                 : cudaErrorInvalidValue;
    };
    return storage == DTYPE_BF16   ? by_head(bf16())
           : storage == DTYPE_FP16 ? by_head(fp16())
                                   : cudaErrorInvalidValue;
}

/* The limit of a block's shared memory on sm_86, 89 and 120, which allow the least. */
enum { MOST_SHARED_BYTES = 99 << 10 };

/* In the backward, blocks of keys sum over the query heads that share the keys. If there are few
 * such blocks, the heads of a group are divided into `head_parts` parts, each with blocks of its
 * own, and the parts' sums are added afterwards. The number of parts depends only on the shape, so
 * the same shape always gives the same bits. */
int head_parts(const struct attention &a);
/* Values of the parts' sums: [parts, sequences, seq, kv_heads, keys then values, head_dim]. */
long head_parts_values(const struct attention &a);

cudaError_t flash_tiles_forward(const struct launch *on, const struct flash_forward &a);
cudaError_t flash_tiles_backward(const struct launch *on, const struct flash_backward &a,
                                 const float *row_dots, float *part_sums);

cudaError_t flash_plain_forward(const struct launch *on, const struct flash_forward &a);
cudaError_t flash_plain_backward(const struct launch *on, const struct flash_backward &a,
                                 const float *row_dots);

#endif
