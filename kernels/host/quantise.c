/* QSGD on the CPU: quantises gradients to codes of a few bits with random rounding. s is the number
 * of levels, |v| the norm of a bucket of elements. */
#include "kernels/host/quantise.h"

#include "kernels/host/optimizer.h"
#include "kernels/host/vector.h"

#include <math.h>

/* number of elements rounded at once */
enum { BATCH = 1024 };

static long smaller(long a, long b)
{
    return a < b ? a : b;
}

/* floor(s |x| / |v| + u) with u uniform over [0, 1), which rounds up with a
 * probability equal to the fractional part. Rounding errors may bring the largest value above s, so
 * it is capped. */
EACH_MACHINE
static void round_batch(int levels, float steps_per_unit, long n, const float *restrict x,
                        const uint32_t *restrict words, uint32_t *restrict codes)
{
    for (long i = 0; i < n; i++) {
        float dither = (float)(int)(words[i] >> 8) * 0x1p-24F;
        int level = (int)(fabsf(x[i]) * steps_per_unit + dither);
        int kept = level < levels ? level : levels;
        codes[i] = (uint32_t)(x[i] < 0 ? -kept : kept);
    }
}

/* --- codes in words ----------------------------------------------------------------------- */

/* State of packing codes of a few bits into 32-bit words, or of unpacking them. */
struct bits {
    uint64_t held;
    int count;
};

static uint32_t *put_codes(struct bits *bits, int width, long n, const uint32_t *codes,
                           uint32_t *to)
{
    uint32_t mask = (1u << width) - 1;
    for (long i = 0; i < n; i++) {
        bits->held |= (uint64_t)(codes[i] & mask) << bits->count;
        bits->count += width;
        if (bits->count >= 32) {
            *to++ = (uint32_t)bits->held;
            bits->held >>= 32;
            bits->count -= 32;
        }
    }
    return to;
}

/* Reads codes as integers: the highest bit of a code is its sign. */
static const uint32_t *get_codes(struct bits *bits, int width, long n, const uint32_t *from,
                                 int *codes)
{
    uint32_t mask = (1u << width) - 1, sign = 1u << (width - 1);
    for (long i = 0; i < n; i++) {
        if (bits->count < width) {
            bits->held |= (uint64_t)*from++ << bits->count;
            bits->count += 32;
        }
        codes[i] = (int)(((uint32_t)bits->held & mask) ^ sign) - (int)sign;
        bits->held >>= width;
        bits->count -= width;
    }
    return from;
}

/* --- buckets ------------------------------------------------------------------------------ */

void quantise(const struct quantiser *quantiser, const struct draw *draw, uint64_t first, long n,
              const float *x, float *norms, uint32_t *codes)
{
    uint32_t words[BATCH], rounded[BATCH];
    struct bits bits = { 0 };
    int levels = quantiser->levels;
    for (long begin = 0; begin < n; begin += quantiser->bucket) {
        long end = smaller(begin + quantiser->bucket, n);
        float norm = (float)sqrt(gradient_squares(end - begin, x + begin));
        float steps_per_unit = (float)levels / norm;
        bool has_steps = isfinite(norm) && isfinite(steps_per_unit); /* false if the norm is near 0
                                                                          or not finite */
        *norms++ = isfinite(norm) ? norm : NAN;
        for (long i = begin; i < end; i += BATCH) {
            long count = smaller(BATCH, end - i);
            draw_words(draw, first + (uint64_t)i, count, words);
            if (has_steps)
                round_batch(levels, steps_per_unit, count, x + i, words, rounded);
            else
                memset(rounded, 0, sizeof rounded);
            codes = put_codes(&bits, quantiser->bits, count, rounded, codes);
        }
    }
    if (bits.count > 0)
        *codes = (uint32_t)bits.held;
}

EACH_MACHINE
static void add_batch(float unit, long n, const int *restrict codes, float *restrict sum)
{
    for (long i = 0; i < n; i++)
        sum[i] += (float)codes[i] * unit;
}

void dequantise_add(const struct quantiser *quantiser, long n, const float *norms,
                    const uint32_t *codes, float *sum)
{
    int read[BATCH];
    struct bits bits = { 0 };
    int levels = quantiser->levels;
    for (long begin = 0; begin < n; begin += quantiser->bucket) {
        long end = smaller(begin + quantiser->bucket, n);
        float unit = *norms++ / (float)levels;
        for (long i = begin; i < end; i += BATCH) {
            long count = smaller(BATCH, end - i);
            codes = get_codes(&bits, quantiser->bits, count, codes, read);
            add_batch(unit, count, read, sum + i);
        }
    }
}
