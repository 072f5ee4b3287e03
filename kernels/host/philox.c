/* Random numbers by Philox4x32-10, which turns the position of a number into the number. A block is
 * four words of 32 bits. */
#include "kernels/host/philox.h"

#include "kernels/host/vector.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

enum { WORDS = 4, ROUNDS = 10 };

/* Runs the rounds in place on the counter, without arrays, so that a loop over blocks can be
 * vectorised. */
INLINED void philox_rounds(uint32_t *c0, uint32_t *c1, uint32_t *c2, uint32_t *c3, uint32_t k0,
                           uint32_t k1)
{
#pragma GCC unroll 10
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * *c0;
        uint64_t product1 = (uint64_t)0xCD9E8D57u * *c2;
        *c0 = (uint32_t)(product1 >> 32) ^ *c1 ^ k0;
        *c1 = (uint32_t)product1;
        *c2 = (uint32_t)(product0 >> 32) ^ *c3 ^ k1;
        *c3 = (uint32_t)product0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    memcpy(out, counter, WORDS * sizeof *out);
    philox_rounds(&out[0], &out[1], &out[2], &out[3], key[0], key[1]);
}

/* BLOCKS blocks are drawn at once, with BATCH words. */
enum { BLOCKS = 16, BATCH = BLOCKS * WORDS };

/* Computes BLOCKS blocks from `block` on. */
EACH_MACHINE
static void draw_batch(const struct draw *draw, uint64_t block, uint32_t words[BATCH])
{
    uint32_t low = (uint32_t)draw->seed, high = (uint32_t)(draw->seed >> 32);
    uint32_t use = (uint32_t)draw->layer << 16 | draw->op;
    uint32_t step = draw->step + (draw->place ? draw->place->step : 0);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint64_t at = block + i;
        uint32_t c0 = (uint32_t)at, c1 = (uint32_t)(at >> 32), c2 = step, c3 = use;
        philox_rounds(&c0, &c1, &c2, &c3, low, high);
        words[WORDS * i] = c0;
        words[WORDS * i + 1] = c1;
        words[WORDS * i + 2] = c2;
        words[WORDS * i + 3] = c3;
    }
}

/* The elements of a range that are in one batch of words. Their words start at words[skipped]. */
struct piece {
    uint32_t words[BATCH];
    long skipped, n;
};

/* Draws the first piece of [first, first + n). */
static void draw_piece(const struct draw *draw, uint64_t first, long n, struct piece *out)
{
    out->skipped = (long)(first % WORDS);
    out->n = n < BATCH - out->skipped ? n : BATCH - out->skipped;
    draw_batch(draw, first / WORDS, out->words);
}

void draw_words(const struct draw *draw, uint64_t first, long n, uint32_t *words)
{
    struct piece piece;
    for (long done = 0; done < n; done += piece.n) {
        draw_piece(draw, first + (uint64_t)done, n - done, &piece);
        memcpy(words + done, piece.words + piece.skipped, sizeof *words * (size_t)piece.n);
    }
}

void draw_keeps(const struct draw *draw, double dropout, uint64_t first, long n, uint8_t *keeps)
{
    uint32_t dropped_below = (uint32_t)(dropout * 0x1p32);
    struct piece piece;
    for (long done = 0; done < n; done += piece.n) {
        draw_piece(draw, first + (uint64_t)done, n - done, &piece);
        for (long i = 0; i < piece.n; i++)
            keeps[done + i] = piece.words[piece.skipped + i] >= dropped_below;
    }
}

/* A normal number from two words. Each word plus one half is scaled into (0, 1), so that the
 * logarithm is finite. */
static double normal_of(uint32_t radius_word, uint32_t angle_word, uint64_t element)
{
    double radius = sqrt(-2 * log((radius_word + 0.5) * 0x1p-32));
    double angle = 2 * pi * (angle_word + 0.5) * 0x1p-32;
    return radius * (element % 2 == 0 ? cos(angle) : sin(angle));
}

void draw_normal(const struct draw *draw, double deviation, uint64_t first, long n, float *values)
{
    struct piece piece;
    for (long done = 0; done < n; done += piece.n) {
        draw_piece(draw, first + (uint64_t)done, n - done, &piece);
        for (long i = 0; i < piece.n; i++) {
            const uint32_t *pair = &piece.words[(piece.skipped + i) / 2 * 2];
            uint64_t element = first + (uint64_t)(done + i);
            values[done + i] = (float)(deviation * normal_of(pair[0], pair[1], element));
        }
    }
}

void draw_tokens(const struct draw *draw, uint32_t vocab, uint64_t first, long n, int64_t *tokens)
{
    struct piece piece;
    for (long done = 0; done < n; done += piece.n) {
        draw_piece(draw, first + (uint64_t)done, n - done, &piece);
        for (long i = 0; i < piece.n; i++)
            tokens[done + i] = (int64_t)((uint64_t)piece.words[piece.skipped + i] * vocab >> 32);
    }
}
