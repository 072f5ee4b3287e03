#include "kernels/host/widen.h"

#include "base/arena.h"
#include "kernels/host/round.h"

#include <assert.h>
#include <stdlib.h>

static float *add(struct widening *widening, void *written, long n)
{
    enum { MOST = sizeof widening->at / sizeof *widening->at };
    assert(widening->count < MOST);
    float *wide = arena_grow(NULL, sizeof *wide * (size_t)n + 1);
    widening->at[widening->count++] = (struct widened){ wide, written, n };
    return wide;
}

static void unpack(enum dtype storage, const void *stored, long n, float *wide)
{
    if (storage == DTYPE_BF16)
        bf16_unpack(n, stored, wide);
    else
        fp16_unpack(n, stored, wide);
}

const float *widen(struct widening *widening, const void *stored, long n)
{
    if (widening->storage == DTYPE_FP32 || !stored)
        return stored;
    float *wide = add(widening, NULL, n);
    unpack(widening->storage, stored, n, wide);
    return wide;
}

float *widen_output(struct widening *widening, void *stored, long n)
{
    return widening->storage == DTYPE_FP32 || !stored ? stored : add(widening, stored, n);
}

float *widen_in_place(struct widening *widening, void *stored, long n)
{
    float *wide = widen_output(widening, stored, n);
    if (wide != stored)
        unpack(widening->storage, stored, n, wide);
    return wide;
}

void widening_end(struct widening *widening)
{
    for (int i = 0; i < widening->count; i++) {
        const struct widened *at = &widening->at[i];
        if (at->written && widening->storage == DTYPE_BF16)
            bf16_pack(at->n, at->wide, at->written);
        else if (at->written)
            fp16_pack(at->n, at->wide, at->written);
        free(at->wide);
    }
    widening->count = 0;
}
