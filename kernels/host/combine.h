/* kernels/host/combine.h - sums of weighted arrays: what ranks do that average in part. */
#ifndef KERNELS_HOST_COMBINE_H
#define KERNELS_HOST_COMBINE_H

/* out = a x + b y, element by element; out may be x or y. */
void combine(long n, float a, const float *x, float b, const float *y, float *out);

#endif
