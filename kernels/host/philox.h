/* kernels/host/philox.h - random numbers that depend only on their position, not on earlier draws.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 * SC'11) turns a counter and a key into four words; there is no state between calls. A draw
 * identifies one use of random numbers, such as the dropout of one op in one step. Its element e is
 * word e % 4 of the block with counter { e / 4 low, e / 4 high, step, layer << 16 | op } under the
 * key `seed`. Elements are numbered over the whole model and the whole global batch, so every
 * parallel layout draws the same numbers. */
#ifndef KERNELS_HOST_PHILOX_H
#define KERNELS_HOST_PHILOX_H

#include <stdint.h>

/* Computes one block. It is the reference implementation, tested against known answers. */
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* The part of a draw that changes with the microbatch. It is in the device's memory, so that a
 * captured call (a CUDA graph) serves every microbatch. */
struct draw_place {
    uint64_t first_sequence; /* index of the first sequence in the global batch */
    uint32_t step;
};

/* Two different draws never share a counter, nor do two elements. */
struct draw {
    uint64_t seed;
    uint32_t step;      /* 0 for values drawn once, such as weights */
    uint16_t layer, op; /* layer: index in the whole model; op: a number from the caller */
    const struct draw_place *place; /* place->step is added to `step`; may be NULL */
};

/* Number of sequences of the global batch before the caller's first one. */
static inline uint64_t draw_first_sequence(const struct draw *draw)
{
    return draw->place ? draw->place->first_sequence : 0;
}

/* Draws the words of elements [first, first + n). */
void draw_words(const struct draw *draw, uint64_t first, long n, uint32_t *words);

/* Draws 1 with probability 1 - dropout (to 2^-32), else 0; 0 <= dropout < 1. */
void draw_keeps(const struct draw *draw, double dropout, uint64_t first, long n, uint8_t *keeps);

/* Draws normal numbers with mean 0 and the given standard deviation, from words 2i and 2i + 1 (Box
 * and Muller 1958). |value| <= 6.7 deviations. */
void draw_normal(const struct draw *draw, double deviation, uint64_t first, long n, float *values);

/* Draws tokens uniformly from [0, vocab), vocab < 2^32. */
void draw_tokens(const struct draw *draw, uint32_t vocab, uint64_t first, long n, int64_t *tokens);

#endif
