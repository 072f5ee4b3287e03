/* kernels/cuda/ptx.cuh - instructions without a CUDA C++ equivalent, one function each. See PTX
 * ISA, sections "cvt", "ex2", "st", "mma", "ldmatrix" and "cp.async"; sm_80 has all of them.
 *
 * tests/cuda_on_host provides these functions for another compiler, so that the kernels can run
 * without a GPU. */
#ifndef KERNELS_CUDA_PTX_CUH
#define KERNELS_CUDA_PTX_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#ifdef __CUDACC__

/* --- conversions: to nearest even --------------------------------------------------------- */

__device__ __forceinline__ uint16_t bf16_bits_of(float value)
{
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ uint16_t fp16_bits_of(float value)
{
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ float float_of_fp16_bits(uint16_t bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

/* Two bf16 values in one register; the instruction takes the upper one first. */
__device__ __forceinline__ uint32_t bf16_pair_of(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ __forceinline__ uint32_t fp16_pair_of(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/* 2^x within 2 ulp; 0 for -infinity. */
__device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* --- registers ---------------------------------------------------------------------------- */

/* Returns the number unchanged, but the compiler does not know this. So it recomputes values that
 * depend on the number after this call, instead of keeping them in registers. */
__device__ __forceinline__ int again(int number)
{
    asm volatile("" : "+r"(number));
    return number;
}

/* --- memory ------------------------------------------------------------------------------- */

/* Stores to global memory, aligned to 16 bytes, in one access; an assignment could be split into
 * one access per value. */
__device__ __forceinline__ void store_16_bytes(void *to, const void *from)
{
    uint4 words;
    memcpy(&words, from, sizeof words);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                 "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
                 : "memory");
}

/* --- products of matrices ----------------------------------------------------------------- */

/* d[16,8] += a[16,16] b[16,8] over a warp. A register of a and b holds two neighbours, the first in
 * the lower half. Lane 4 g + t holds of a: rows g, g + 8, g, g + 8, with columns 2t, 2t + 1 in the
 * first two registers and 2t + 8, 2t + 9 in the others; of b: column g, rows 2t, 2t + 1, then 2t +
 * 8, 2t + 9; of d: rows g, g, g + 8, g + 8, and columns 2t and 2t + 1 alternately. */
__device__ __forceinline__ void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma_fp16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* --- shared memory ------------------------------------------------------------------------ */

/* The launch's dynamic shared memory, aligned to 128 bytes, which all banks together deliver in a
 * cycle. */
__device__ __forceinline__ char *shared_memory()
{
    extern __shared__ __align__(128) char shared_bytes[];
    return shared_bytes;
}

__device__ __forceinline__ uint32_t shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/* Loads four matrices of 8 rows of 8 16-bit values from shared memory. Lane 8 i + r passes the
 * address of row r of matrix i, a multiple of 16 bytes: `row` with the bits of `flip` inverted,
 * plus `further` bytes. `flip` and `further` are known at compile time. Lane 4 g + t gets columns
 * 2t and 2t + 1 of row g of each matrix; in the transposed form, rows 2t and 2t + 1 of column g. */
__device__ __forceinline__ void load_matrices(uint32_t to[4], const void *row, int flip,
                                              int further)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((shared_address(row) ^ (uint32_t)flip) + (uint32_t)further)
                 : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(uint32_t to[4], const void *row, int flip,
                                                         int further)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((shared_address(row) ^ (uint32_t)flip) + (uint32_t)further)
                 : "memory");
}

/* Copies asynchronously from global to shared memory; the thread must wait for the copy
 * (copies_wait). When `is_read` is false it writes zeros, and `from` may be any address: zero bytes
 * are read there, as in CUTLASS's cp_async_zfill (cutlass/arch/memory_sm80.h). */
__device__ __forceinline__ void copy_16_bytes(void *to, const void *from, bool is_read)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(is_read ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void copies_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until all this thread's groups of copies except the latest `groups_left` have arrived.
 * Other threads see the data after a barrier. */
template <int groups_left> __device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(groups_left) : "memory");
}

#endif

#endif
