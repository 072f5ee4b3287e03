/* kernels/host/widen.h - fp32 copies or views of stored arrays, valid while an op runs.
 *
 * fp32 arrays are passed through without a copy, and the op's own overlap rules apply. Otherwise
 * every array is a copy, so an op may read and write the same memory freely; outputs are rounded to
 * nearest even when the op ends. */
#ifndef KERNELS_HOST_WIDEN_H
#define KERNELS_HOST_WIDEN_H

#include "models/op.h"

/* Initialise with { .storage = DTYPE_BF16 }, or fp32 or fp16. */
struct widening {
    enum dtype storage;
    struct widened {
        float *wide;
        void *written; /* where to store the result; NULL: the array is only read */
        long n;
    } at[6];
    int count;
};

/* Views of the n values of `stored` (NULL gives NULL). widen: to read; widen_output: to write in
 * full; widen_in_place: to read and write. Valid until widening_end, which stores the outputs in
 * the order of these calls. */
const float *widen(struct widening *widening, const void *stored, long n);
float *widen_output(struct widening *widening, void *stored, long n);
float *widen_in_place(struct widening *widening, void *stored, long n);
void widening_end(struct widening *widening);

#endif
