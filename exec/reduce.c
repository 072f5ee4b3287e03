#include "exec/reduce.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 1024 }; /* elements whose running sums stay in the first-level cache */

static float larger_fp32(float a, float b)
{
    return a > b || a != a ? a : b;
}

static double larger_fp64(double a, double b)
{
    return a > b || a != a ? a : b;
}

static void add_fp32(float *restrict sum, const float *restrict with, size_t count,
                     enum reduction reduction)
{
    if (reduction == REDUCTION_SUM)
        for (size_t i = 0; i < count; i++)
            sum[i] = sum[i] + with[i];
    else
        for (size_t i = 0; i < count; i++)
            sum[i] = larger_fp32(sum[i], with[i]);
}

static void add_fp64(double *restrict sum, const double *restrict with, size_t count,
                     enum reduction reduction)
{
    if (reduction == REDUCTION_SUM)
        for (size_t i = 0; i < count; i++)
            sum[i] = sum[i] + with[i];
    else
        for (size_t i = 0; i < count; i++)
            sum[i] = larger_fp64(sum[i], with[i]);
}

static void widen(float *restrict to, const uint16_t *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

/* To nearest, ties to even; a NaN stays one. */
static void narrow(uint16_t *restrict to, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
        to[i] = (uint16_t)(from[i] != from[i] ? bits >> 16 | 0x40 : rounded >> 16);
    }
}

/* One block, `first` elements into the arrays. Sums are held apart, as `out` may be a part. */
static void reduce_block(enum element element, enum reduction reduction, const void *const *parts,
                         int num_parts, void *out, size_t first, size_t count)
{
    union {
        float fp32[BLOCK];
        double fp64[BLOCK];
    } sum;
    float wide[BLOCK];
    size_t bytes = element_bytes(element);
    for (int i = 0; i < num_parts; i++) {
        const char *part = (const char *)parts[i] + first * bytes;
        if (element == ELEMENT_BF16)
            widen(i == 0 ? sum.fp32 : wide, (const void *)part, count);
        if (i == 0 && element != ELEMENT_BF16)
            memcpy(&sum, part, count * bytes);
        if (i > 0 && element == ELEMENT_FP64)
            add_fp64(sum.fp64, (const void *)part, count, reduction);
        if (i > 0 && element != ELEMENT_FP64)
            add_fp32(sum.fp32, element == ELEMENT_BF16 ? wide : (const void *)part, count,
                     reduction);
    }
    if (element == ELEMENT_BF16)
        narrow((uint16_t *)out + first, sum.fp32, count);
    else
        memcpy((char *)out + first * bytes, &sum, count * bytes);
}

void reduce_parts(enum element element, enum reduction reduction, const void *const *parts,
                  int num_parts, void *out, size_t count)
{
    assert(element != ELEMENT_BYTES && "bytes are moved, never reduced");
    for (size_t first = 0; first < count; first += BLOCK) {
        size_t left = count - first;
        reduce_block(element, reduction, parts, num_parts, out, first, left < BLOCK ? left : BLOCK);
    }
}

void reduce_into(enum element element, enum reduction reduction, void *into, const void *from,
                 size_t count)
{
    if (element == ELEMENT_FP32)
        add_fp32(into, from, count, reduction);
    else if (element == ELEMENT_FP64)
        add_fp64(into, from, count, reduction);
    else
        reduce_parts(element, reduction, (const void *const[]){ from, into }, 2, into, count);
}
