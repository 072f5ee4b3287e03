/* kernels/host/rotary.h - rotary positions on the queries and keys of packed qkv (OP_ROTARY).
 *
 * Rotary embeddings (Su et al. 2021) in the half-split convention of Llama and Hugging Face:
 * elements i and i + head_dim / 2 of a head are rotated as a pair by the angle position * base^(-2i
 * / head_dim). The position is the token's index in its sequence. Nothing is saved: the backward
 * rotates back. head_dim is even. */
#ifndef KERNELS_HOST_ROTARY_H
#define KERNELS_HOST_ROTARY_H

#include "kernels/host/attention.h"

/* Fills rope_cos_sin[seq, 2, head_dim / 2] with cosines, then sines, of angles computed in double.
 * Called once per run. */
void rotary_table(long seq, long head_dim, double base, float *rope_cos_sin);

/* These rotate the queries and keys in place, forwards and back. */
void rotary_forward(const struct attention *attention, const float *rope_cos_sin, float *qkv);
void rotary_backward(const struct attention *attention, const float *rope_cos_sin, float *dqkv);

#endif
