/* tests/cuda_on_host/ptx.h - the instructions of kernels/cuda/ptx.cuh, as defined in the PTX manual
 * (ISA 9.0; section numbers below). cuda_runtime.h includes this file. */
#ifndef TESTS_CUDA_ON_HOST_PTX_H
#define TESTS_CUDA_ON_HOST_PTX_H

extern "C" {
#include "kernels/host/round.h"
}

/* --- conversions -------------------------------------------------------------------------- */

inline uint16_t bf16_bits_of(float value)
{
    return bf16_of(value);
}

inline uint16_t fp16_bits_of(float value)
{
    return fp16_of(value);
}

inline float float_of_fp16_bits(uint16_t bits)
{
    return float_of_fp16(bits);
}

inline uint32_t bf16_pair_of(float low, float high)
{
    return bf16_bits_of(low) | (uint32_t)bf16_bits_of(high) << 16;
}

inline uint32_t fp16_pair_of(float low, float high)
{
    return fp16_bits_of(low) | (uint32_t)fp16_bits_of(high) << 16;
}

inline float exp2_fast(float x)
{
    return exp2f(x);
}

/* --- memory ------------------------------------------------------------------------------- */

inline void store_16_bytes(void *to, const void *from)
{
    grid_check_16(to);
    memcpy(to, from, 16);
}

/* --- products of matrices: 9.7.14, mma.m16n8k16 ------------------------------------------- */

struct grid_mma {
    float *d;
    const uint32_t *a, *b;
};

/* Lane 4 g + t holds rows g and g + 8 of a; its rows of b and columns of d are given below. */
template <void unpack(long, const uint16_t *, float *)> void grid_multiply(void *const *offers, int)
{
    float a[16][16], b[8][16];
    for (int lane = 0; lane < WARP_LANES; lane++) {
        const grid_mma *mma = static_cast<grid_mma *>(offers[lane]);
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; i++) {
            uint16_t pair[2] = { (uint16_t)mma->a[i], (uint16_t)(mma->a[i] >> 16) };
            unpack(2, pair, &a[g + i % 2 * 8][2 * t + i / 2 * 8]);
        }
        for (int i = 0; i < 2; i++) {
            uint16_t pair[2] = { (uint16_t)mma->b[i], (uint16_t)(mma->b[i] >> 16) };
            unpack(2, pair, &b[g][2 * t + i * 8]);
        }
    }
    for (int lane = 0; lane < WARP_LANES; lane++)
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + i / 2 * 8, column = 2 * (lane % 4) + i % 2;
            float sum = static_cast<grid_mma *>(offers[lane])->d[i];
            for (int k = 0; k < 16; k++)
                sum += a[row][k] * b[column][k];
            static_cast<grid_mma *>(offers[lane])->d[i] = sum;
        }
}

inline void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    grid_mma mma = { d, a, b };
    grid_meet_warp(grid_multiply<bf16_unpack>, &mma);
}

inline void mma_fp16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    grid_mma mma = { d, a, b };
    grid_meet_warp(grid_multiply<fp16_unpack>, &mma);
}

inline int again(int number)
{
    return number;
}

/* --- shared memory ------------------------------------------------------------------------ */

inline char *shared_memory()
{
    return grid_now->shared;
}

/* --- loading matrices: 9.7.14, ldmatrix.x4 ------------------------------------------------ */

struct grid_load {
    uint32_t *to;
    const void *row;
};

/* Lane 8 i + r points at row r of matrix i. */
template <bool is_transposed> void grid_load_matrices(void *const *offers, int)
{
    for (int i = 0; i < 4; i++) {
        uint16_t matrix[8][8];
        for (int row = 0; row < 8; row++)
            memcpy(matrix[row], grid_check_16(static_cast<grid_load *>(offers[8 * i + row])->row),
                   sizeof matrix[row]);
        for (int lane = 0; lane < WARP_LANES; lane++) {
            int g = lane / 4, t = lane % 4 * 2;
            uint32_t low = is_transposed ? matrix[t][g] : matrix[g][t];
            uint32_t high = is_transposed ? matrix[t + 1][g] : matrix[g][t + 1];
            static_cast<grid_load *>(offers[lane])->to[i] = low | high << 16;
        }
    }
}

inline const char *grid_flipped(const void *row, int flip)
{
    return reinterpret_cast<const char *>(reinterpret_cast<uintptr_t>(row) ^ (uintptr_t)flip);
}

inline void load_matrices(uint32_t to[4], const void *row, int flip, int further)
{
    grid_load load = { to, grid_flipped(row, flip) + further };
    grid_meet_warp(grid_load_matrices<false>, &load);
}

inline void load_matrices_transposed(uint32_t to[4], const void *row, int flip, int further)
{
    grid_load load = { to, grid_flipped(row, flip) + further };
    grid_meet_warp(grid_load_matrices<true>, &load);
}

/* --- copies that are under way: 9.7.9, cp.async ------------------------------------------- */

inline void copy_16_bytes(void *to, const void *from, bool is_read)
{
    static const char zeros[16] = { 0 };
    grid_check_16(to);
    grid_check_16(from);
    grid_copy(to, is_read ? from : zeros);
}

inline void copies_commit()
{
    grid_copies_commit();
}

template <int groups_left> void copies_wait()
{
    grid_copies_wait(groups_left);
}

#endif
