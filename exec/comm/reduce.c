/* Sums and maxima of arrays, element by element and in a fixed order. */
#include "exec/comm/reduce.h"

#include "kernels/host/round.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 1024 }; /* running sums of a block fit in the L1 cache */

static float larger_fp32(float a, float b)
{
    return a > b || a != a ? a : b;
}

static double larger_fp64(double a, double b)
{
    return a > b || a != a ? a : b;
}

/* Loops over a whole block have a constant count, so the compiler vectorises them even at -O2; the
 * remaining elements are combined one by one. */
#define DEFINE_ADD(name, type, expression)                                  \
    static void name##_block(type *restrict sum, const type *restrict with) \
    {                                                                       \
        for (size_t i = 0; i < BLOCK; i++)                                  \
            sum[i] = expression;                                            \
    }                                                                       \
    static void name(void *into, const void *from, size_t count)            \
    {                                                                       \
        type *sum = into;                                                   \
        const type *with = from;                                            \
        if (count == BLOCK)                                                 \
            name##_block(sum, with);                                        \
        for (size_t i = 0; i < count && count < BLOCK; i++)                 \
            sum[i] = expression;                                            \
    }
DEFINE_ADD(add_fp32, float, sum[i] + with[i])
DEFINE_ADD(add_fp64, double, sum[i] + with[i])
DEFINE_ADD(max_fp32, float, larger_fp32(sum[i], with[i]))
DEFINE_ADD(max_fp64, double, larger_fp64(sum[i], with[i]))

/* Adds a summand, or takes the maximum with it, for at most one block; 16-bit values are already
 * widened to fp32. */
static void (*const adders[NUM_REDUCTIONS][2])(void *into, const void *from, size_t count) = {
    [REDUCTION_SUM] = { add_fp32, add_fp64 },
    [REDUCTION_MAX] = { max_fp32, max_fp64 },
};

/* Running sums in fp64 or fp32 (also for 16-bit values), separate from `out`, which may be one of
 * the parts. */
union block {
    float fp32[BLOCK];
    double fp64[BLOCK];
};

static void load(enum element element, const void *part, size_t first, size_t count,
                 union block *block)
{
    size_t bytes = element_bytes(element);
    if (element == ELEMENT_BF16)
        bf16_unpack((long)count, (const uint16_t *)part + first, block->fp32);
    else if (element == ELEMENT_FP16)
        fp16_unpack((long)count, (const uint16_t *)part + first, block->fp32);
    else
        memcpy(block, (const char *)part + first * bytes, count * bytes);
}

static void store(enum element element, const union block *block, void *out, size_t first,
                  size_t count)
{
    size_t bytes = element_bytes(element);
    if (element == ELEMENT_BF16)
        bf16_pack((long)count, block->fp32, (uint16_t *)out + first);
    else if (element == ELEMENT_FP16)
        fp16_pack((long)count, block->fp32, (uint16_t *)out + first);
    else
        memcpy((char *)out + first * bytes, block, count * bytes);
}

/* Reduces one block, which begins at element `first` of the arrays. */
static void reduce_block(enum element element, enum reduction reduction, const void *const *parts,
                         int num_parts, void *out, size_t first, size_t count)
{
    union block sum, next;
    load(element, parts[0], first, count, &sum);
    for (int i = 1; i < num_parts; i++) {
        load(element, parts[i], first, count, &next);
        adders[reduction][element == ELEMENT_FP64](&sum, &next, count);
    }
    store(element, &sum, out, first, count);
}

void reduce_parts(enum element element, enum reduction reduction, const void *const *parts,
                  int num_parts, void *out, size_t count)
{
    assert(element != ELEMENT_BYTES && "bytes cannot be reduced");
    for (size_t first = 0; first < count; first += BLOCK) {
        size_t left = count - first;
        reduce_block(element, reduction, parts, num_parts, out, first, left < BLOCK ? left : BLOCK);
    }
}
