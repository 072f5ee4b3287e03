/* kernels/host/round.h - fp32 to bf16 and fp16, to nearest even, and back.
 *
 * Ops unpack to fp32, compute, and pack their results (widen.h). Infinities stay, NaN stays a quiet
 * NaN, and overflow gives infinity, as in IEEE 754. */
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
