/* kernels/host/philox.h - random numbers that are a function of where they are used.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 * SC'11) turns a counter and a key into four words; nothing is carried from one call to the next.
 * A draw names a use; its element e is word e % 4 of the block whose counter is
 * { e / 4 low, e / 4 high, step, layer << 16 | op } under the key `seed`. Elements are numbered in
 * the tensor of the whole model and the whole global batch, so every layout draws the same. */
#ifndef KERNELS_HOST_PHILOX_H
#define KERNELS_HOST_PHILOX_H

#include <stdint.h>

/* One block: the reference, of which the tests know answers. */
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* What of a draw is another one with every microbatch. It lies in the memory of what draws, so that
 * a call that was issued once can be run again for the next. */
struct draw_place {
    uint64_t first_sequence; /* in the global batch */
    uint32_t step;
};

/* Two different draws, or elements, never share a counter. */
struct draw {
    uint64_t seed;
    uint32_t step;                  /* 0 for what is drawn once, as weights are */
    uint16_t layer, op;             /* of the whole model; the caller numbers its ops */
    const struct draw_place *place; /* its step is added; NULL: nothing is */
};

/* Sequences that come before those that the caller counts. */
static inline uint64_t draw_first_sequence(const struct draw *draw)
{
    return draw->place ? draw->place->first_sequence : 0;
}

/* Elements [first, first + n). */
void draw_words(const struct draw *draw, uint64_t first, long n, uint32_t *words);

/* 1 with probability 1 - dropout (to 2^-32), else 0; 0 <= dropout < 1. */
void draw_keeps(const struct draw *draw, double dropout, uint64_t first, long n, uint8_t *keeps);

/* Normal, mean 0: Box and Muller 1958 on words 2i and 2i + 1. |value| <= 6.7 deviations. */
void draw_normal(const struct draw *draw, double deviation, uint64_t first, long n, float *values);

/* Even over [0, vocab), vocab < 2^32. */
void draw_tokens(const struct draw *draw, uint32_t vocab, uint64_t first, long n, int64_t *tokens);

#endif
