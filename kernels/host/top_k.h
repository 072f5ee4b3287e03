/* kernels/host/top_k.h - extracts the k largest of n elements as a list, and adds such lists to an
 * array.
 *
 * Exactly the k elements of largest magnitude are kept; on a tie the first ones, so that every rank
 * and run keeps the same elements. With C(x) the kept elements, the norm of the rest is the
 * smallest possible: |C(x) - x|^2 <= (1 - k / n) |x|^2 (Stich, Cordonnier and Jaggi, "Sparsified
 * SGD with memory", NeurIPS 2018, lemma A.1). A NaN counts as larger than anything. */
#ifndef KERNELS_HOST_TOP_K_H
#define KERNELS_HOST_TOP_K_H

#include <stdint.h>

/* Maps x [n], 0 <= k <= n < 2^32, to indices [k], ascending, and values [k]. The extracted elements
 * of x become 0, so x then contains the error that error feedback adds to the next gradient. */
void top_k_take(long n, float *x, long k, uint32_t *indices, float *values);

/* sum[indices[i]] += values[i]; indices of n or more are ignored. */
void top_k_add(long k, const uint32_t *indices, const float *values, long n, float *sum);

#endif
