/* sim/exchange/qsgd.h - the form of a quantised message.
 *
 * Elements are split in order into buckets; the last may be shorter. A bucket is sent as its
 * Euclidean norm in fp32 and, for each element, an integer l_i from -s to s in two's complement of
 * `bits` bits, packed without gaps into 32-bit words: x_i = norm x l_i / s. |x_i| s / norm is
 * rounded up or down at random; the probability of rounding up is its fractional part (Alistarh et
 * al. 2017, section 3.1; buckets: section 4). */
#ifndef SIM_EXCHANGE_QSGD_H
#define SIM_EXCHANGE_QSGD_H

/* Elements per bucket, as in the paper's 4-bit runs (section 5). */
enum { QSGD_BUCKET = 512 };

/* s: levels above 0, 2^(bits-1) - 1. */
int qsgd_levels(int bits);

#endif
