/* kernels/host/top_k.h - takes the k largest of n elements, and adds such lists up.
 *
 * Exactly the k elements of largest magnitude are kept; the first on a tie, so that every rank and
 * run keeps the same. The part left out is the smallest possible: |C(x) - x|^2 <= (1 - k / n) |x|^2
 * (Stich, Cordonnier and Jaggi, "Sparsified SGD with memory", NeurIPS 2018, lemma A.1). A NaN
 * counts as larger than anything. */
#ifndef KERNELS_HOST_TOP_K_H
#define KERNELS_HOST_TOP_K_H

#include <stdint.h>

/* x [n], 0 <= k <= n < 2^32 -> indices [k], ascending, and values [k]. Taken elements become 0, so
 * x is then the memory of error feedback. */
void top_k_take(long n, float *x, long k, uint32_t *indices, float *values);

/* sum[indices[i]] += values[i]; indices of n or more are ignored. */
void top_k_add(long k, const uint32_t *indices, const float *values, long n, float *sum);

#endif
