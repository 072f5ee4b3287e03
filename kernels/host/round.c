/* Converts fp32 to bf16 and fp16 and back. */
#include "kernels/host/round.h"

#include "kernels/host/vector.h"

#include <stdbool.h>

static const uint32_t infinity_bits = 0x7f800000u;

/* Returns first ? a : b without a branch, so that loops can be vectorised. */
INLINED uint32_t choose(bool first, uint32_t a, uint32_t b)
{
    uint32_t mask = -(uint32_t)first;
    return (a & mask) | (b & ~mask);
}

INLINED uint16_t to_bf16(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t odd = bits >> 16 & 1;
    uint32_t rounded = (bits + 0x7fffu + odd) >> 16;
    uint32_t quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > infinity_bits ? quiet : rounded);
}

/* Below 2^-14 the spacing of fp16 values is 2^-24, equal to that of floats in [0.5, 1), so adding
 * 0.5 rounds. Above, the exponent's bias is changed and 13 bits are rounded off. Overflow gives
 * infinity. */
INLINED uint16_t to_fp16(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t small = bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F);
    uint32_t odd = magnitude >> 13 & 1;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
    uint32_t half = choose(magnitude < 113u << 23, small, normal);
    half = choose(half > 0x7c00u, 0x7c00u, half);
    return (uint16_t)(sign | choose(magnitude > infinity_bits, 0x7e00u, half));
}

INLINED float fp16_value(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7fffu;
    float small = (float)(int)magnitude * 0x1p-24F;
    uint32_t normal = (magnitude << 13) + (112u << 23);
    uint32_t special = magnitude << 13 | infinity_bits;
    uint32_t bits = choose(magnitude < 0x400u, bits_of(small), normal);
    return float_of(sign | choose(magnitude >= 0x7c00u, special, bits));
}

INLINED float bf16_value(uint16_t half)
{
    return float_of((uint32_t)half << 16);
}

EACH_MACHINE
void bf16_round(long n, float *x)
{
    for (long i = 0; i < n; i++)
        x[i] = bf16_value(to_bf16(x[i]));
}

EACH_MACHINE
void fp16_round(long n, float *x)
{
    for (long i = 0; i < n; i++)
        x[i] = fp16_value(to_fp16(x[i]));
}

EACH_MACHINE
void bf16_pack(long n, const float *restrict x, uint16_t *restrict out)
{
    for (long i = 0; i < n; i++)
        out[i] = to_bf16(x[i]);
}

EACH_MACHINE
void fp16_pack(long n, const float *restrict x, uint16_t *restrict out)
{
    for (long i = 0; i < n; i++)
        out[i] = to_fp16(x[i]);
}

EACH_MACHINE
void bf16_unpack(long n, const uint16_t *restrict x, float *restrict out)
{
    for (long i = 0; i < n; i++)
        out[i] = bf16_value(x[i]);
}

EACH_MACHINE
void fp16_unpack(long n, const uint16_t *restrict x, float *restrict out)
{
    for (long i = 0; i < n; i++)
        out[i] = fp16_value(x[i]);
}
