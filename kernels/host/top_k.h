/* kernels/host/top_k.h - the k largest of n, and sums of such.
 *
 * Exactly k elements of largest magnitude are kept; of equal ones those that come first, so that
 * every rank and run keeps the same. What is left out is the smallest part there is:
 * |C(x) - x|^2 <= (1 - k / n) |x|^2 (Stich, Cordonnier and Jaggi, "Sparsified SGD with memory",
 * NeurIPS 2018, lemma A.1). A NaN counts as larger than anything. */
#ifndef KERNELS_HOST_TOP_K_H
#define KERNELS_HOST_TOP_K_H

#include <stdint.h>

/* x [n], 0 <= k <= n < 2^32 -> indices [k], rising, and values [k]; what was taken is 0 in x
 * afterwards, so that x is what error feedback remembers. */
void top_k_take(long n, float *x, long k, uint32_t *indices, float *values);

/* sum[indices[i]] += values[i]; what points past n is left out. */
void top_k_add(long k, const uint32_t *indices, const float *values, long n, float *sum);

#endif
