/* kernels/host/quantise.h - quantises gradients to a few bits each, with random rounding whose
 * expected value is exact.
 *
 * QSGD (Alistarh, Grubic, Li, Tomioka and Vojnovic, "QSGD: communication-efficient SGD via gradient
 * quantization and encoding", NIPS 2017, section 3.1): with s levels, an element x of a bucket of
 * 2-norm |v| becomes sign(x) |v| l / s, where l is s |x| / |v| rounded up with the probability of
 * its fraction and down otherwise, so that E[Q(x)] = x. The variance added to a bucket of d
 * elements is at most min(d / s^2, sqrt(d) / s) |v|^2 (lemma 3.1). A message has an fp32 norm per
 * bucket and the signed l of each element in two's complement. */
#ifndef KERNELS_HOST_QUANTISE_H
#define KERNELS_HOST_QUANTISE_H

#include "kernels/host/philox.h"

struct quantiser {
    int bits;    /* bits of a code, 2 to 16; codes are -levels to levels */
    int levels;  /* the s above */
    long bucket; /* number of elements that share a norm */
};

/* Maps x [n] to norms [ceil(n / bucket)] and codes [ceil(n bits / 32)], code i at bit i x bits
 * counted from the lowest of the first word. Element i draws word first + i. A bucket with an
 * infinity or NaN decodes to NaN. A bucket whose levels / norm overflows a float decodes to
 * zeros. */
void quantise(const struct quantiser *quantiser, const struct draw *draw, uint64_t first, long n,
              const float *x, float *norms, uint32_t *codes);

/* sum [n] += the decoded values. */
void dequantise_add(const struct quantiser *quantiser, long n, const float *norms,
                    const uint32_t *codes, float *sum);

#endif
