/* kernels/host/round.h - converts fp32 to bf16 and fp16, rounded to nearest even, and back.
 *
 * Ops unpack their inputs to fp32, compute, and pack their results (widen.h). As in IEEE 754,
 * infinities are kept, NaN becomes a quiet NaN, and overflow gives infinity. */
#ifndef KERNELS_HOST_ROUND_H
#define KERNELS_HOST_ROUND_H

#include <stdint.h>
#include <string.h>

void bf16_round(long n, float *x); /* in place */
void fp16_round(long n, float *x);

/* `out` does not overlap `x`. */
void bf16_pack(long n, const float *x, uint16_t *out);
void fp16_pack(long n, const float *x, uint16_t *out);
void bf16_unpack(long n, const uint16_t *x, float *out);
void fp16_unpack(long n, const uint16_t *x, float *out);

/* Converts one number. */
static inline uint16_t bf16_of(float value)
{
    uint16_t bits;
    bf16_pack(1, &value, &bits);
    return bits;
}

static inline uint16_t fp16_of(float value)
{
    uint16_t bits;
    fp16_pack(1, &value, &bits);
    return bits;
}

static inline float float_of_fp16(uint16_t half)
{
    float value;
    fp16_unpack(1, &half, &value);
    return value;
}

/* The 32 bits of a float, and the float of 32 bits. */
static inline __attribute__((always_inline)) uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline __attribute__((always_inline)) float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
