/* kernels/host/widen.h - arrays as fp32 while an op runs on them, whatever they are stored as.
 *
 * Where values are fp32 they are handed through, nothing is copied, and what may overlap is up to
 * the op. Otherwise every array is a copy: arrays that are the same in memory may be read and
 * written as the op likes, and what was written is rounded to nearest even when the op is over. */
#ifndef KERNELS_HOST_WIDEN_H
#define KERNELS_HOST_WIDEN_H

#include "models/op.h"

/* { .storage = DTYPE_BF16 }: fp32, bf16 or fp16. */
struct widening {
    enum dtype storage;
    struct widened {
        float *wide;
        void *written; /* NULL: only read */
        long n;
    } at[6];
    int count;
};

/* The n values of `stored`, which is NULL for none: to be read; to be written, all of them; to be
 * read and written. Valid until widening_end, which stores what was written, in that order. */
const float *widen(struct widening *widening, const void *stored, long n);
float *widen_output(struct widening *widening, void *stored, long n);
float *widen_in_place(struct widening *widening, void *stored, long n);
void widening_end(struct widening *widening);

#endif
