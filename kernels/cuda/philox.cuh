/* kernels/cuda/philox.cuh - kernels/host/philox.h on the device: the same words, bit for bit. */
#ifndef KERNELS_CUDA_PHILOX_CUH
#define KERNELS_CUDA_PHILOX_CUH

#include "kernels/cuda/ptx.cuh"

extern "C" {
#include "kernels/host/philox.h"
}

struct philox_block {
    uint32_t words[4];
};

__device__ __forceinline__ philox_block philox(const struct draw &draw, uint64_t block)
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32);
    uint32_t c2 = draw.step + (draw.place ? draw.place->step : 0),
             c3 = (uint32_t)draw.layer << 16 | draw.op;
    uint32_t k0 = (uint32_t)draw.seed, k1 = (uint32_t)(draw.seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return { { c0, c1, c2, c3 } };
}

/* Returns words[at], but without an index at run time, as an indexed array would be put in local
 * memory. */
__device__ __forceinline__ uint32_t word_of(const philox_block &block, uint32_t at)
{
    return at < 2 ? (at == 0 ? block.words[0] : block.words[1])
                  : (at == 2 ? block.words[2] : block.words[3]);
}

/* Dropout's draw (philox.h) and threshold: an element is kept if its word is at least the
 * threshold. */
struct dropper {
    struct draw draw;
    uint32_t dropped_below;
    float kept_scale; /* 1 / (1 - dropout) */
};

inline struct dropper dropper_of(const struct draw &draw, double dropout)
{
    return { draw, (uint32_t)(dropout * 0x1p32), (float)(1 / (1 - dropout)) };
}

/* Draws whether each of N elements from `first` on is kept. When N is a multiple of 4, `first` is
 * too. */
template <int N>
__device__ __forceinline__ void draw_keeps_of(const struct dropper &dropper, uint64_t first,
                                              bool *keeps)
{
    /* number of words of the first block that are skipped */
    uint32_t skipped = N % 4 == 0 ? 0 : (uint32_t)first % 4;
    philox_block block = philox(dropper.draw, first / 4);
#pragma unroll
    for (int i = 0; i < N; i++) {
        uint32_t at = (skipped + i) % 4;
        if (i > 0 && at == 0)
            block = philox(dropper.draw, (first + i) / 4);
        keeps[i] = word_of(block, at) >= dropper.dropped_below;
    }
}

#endif
