/* kernels/host/combine.h - weighted sums of arrays, for partial averaging between ranks. */
#ifndef KERNELS_HOST_COMBINE_H
#define KERNELS_HOST_COMBINE_H

/* out = a x + b y, element by element; out may be x or y. */
void combine(long n, float a, const float *x, float b, const float *y, float *out);

#endif
