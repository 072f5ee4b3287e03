/* kernels/host/round.h - fp32 to bf16 and fp16, to nearest even, and back.
 *
 * Ops compute in fp32 on what was unpacked and pack what they wrote (widen.h). Infinities stay, NaN
 * stays NaN (quiet), and what is too large becomes infinite, as IEEE 754 says. */
#ifndef KERNELS_HOST_ROUND_H
#define KERNELS_HOST_ROUND_H

#include <stdint.h>

void bf16_round(long n, float *x); /* in place */
void fp16_round(long n, float *x);

/* `out` does not overlap `x`. */
void bf16_pack(long n, const float *x, uint16_t *out);
void fp16_pack(long n, const float *x, uint16_t *out);
void bf16_unpack(long n, const uint16_t *x, float *out);
void fp16_unpack(long n, const uint16_t *x, float *out);

#endif
