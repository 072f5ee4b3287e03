/* kernels/cuda/drop.cuh - dropout of probabilities in mma's register layout (tile.cuh). One draw (a
 * Philox block of four words) decides four neighbours along the keys, so the lanes that hold these
 * four share the draw. The sequence length must be a multiple of 4. */
#ifndef KERNELS_CUDA_DROP_CUH
#define KERNELS_CUDA_DROP_CUH

#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/tile.cuh"

/* Returns the dropper with its place already read, so that draws need not read it each time. */
__device__ __forceinline__ struct dropper settled(struct dropper dropper)
{
    dropper.draw.step += dropper.draw.place ? dropper.draw.place->step : 0;
    dropper.draw.place = NULL;
    return dropper;
}

/* Draws RUNS groups of four elements. Bit 4 n + i of the result says whether element i of the group
 * that contains index number(n) is kept. */
template <int RUNS, typename Number>
__device__ __forceinline__ uint32_t draw_runs(const struct dropper &dropper, const Number &number)
{
    uint32_t kept = 0;
#pragma unroll
    for (int n = 0; n < RUNS; n++) {
        philox_block block = philox(dropper.draw, number(n) / 4);
#pragma unroll
        for (int i = 0; i < 4; i++)
            kept |= (uint32_t)(block.words[i] >= dropper.dropped_below) << (4 * n + i);
    }
    return kept;
}

/* Draws for an accumulator of [16 queries, COLUMNS keys], at most 64: bit 4 n + i of the result is
 * for value i of entry n. `number` is the index of the lane's first value. Two lanes share groups;
 * one draws for row g, the other for row g + 8. */
template <int COLUMNS>
__device__ __forceinline__ uint32_t draw_by_query(const struct dropper &dropper, uint64_t number,
                                                  long seq)
{
    bool is_second = own_lane() % 2 != 0;
    uint64_t own = number + (uint64_t)(is_second ? 8 * seq : 0);
    uint32_t drawn = draw_runs<COLUMNS / MMA_COLUMNS>(
        dropper, [&](int n) { return own + (uint64_t)(n * MMA_COLUMNS); });
    uint32_t other = __shfl_xor_sync(~0u, drawn, 1);
    const uint32_t first_two = 0x33333333;
    return is_second ? (other >> 2 & first_two) | (drawn & ~first_two)
                     : (drawn & first_two) | (other & first_two) << 2;
}

/* Draws for an accumulator of [16 keys, COLUMNS queries]; bits as in draw_by_query. Four lanes
 * share groups; each draws for one value i of all four lanes. */
template <int COLUMNS>
__device__ __forceinline__ uint32_t draw_by_key(const struct dropper &dropper, uint64_t number,
                                                long seq)
{
    int own = own_lane() / 4 % 4;
    uint64_t first = number + (uint64_t)(own / 2 * 8 - own + own % 2 * seq);
    uint32_t drawn = draw_runs<COLUMNS / MMA_COLUMNS>(
        dropper, [&](int n) { return first + (uint64_t)(n * MMA_COLUMNS * seq); });
    uint32_t kept = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t value = __shfl_sync(~0u, drawn, own_lane() - 4 * own + 4 * i) >> own;
        kept |= (value & 0x11111111) << i;
    }
    return kept;
}

#endif
