/* kernels/host/attention_part.h - offsets of the heads of a sequence in the packed arrays; only the
 * sources of attention.h include it. */
#ifndef KERNELS_HOST_ATTENTION_PART_H
#define KERNELS_HOST_ATTENTION_PART_H

#include "kernels/host/attention.h"

/* One query head of one sequence. */
struct head {
    long sequence, head;
    long query, key, value; /* offsets in qkv of the first token's query, key and value */
    long context;           /* offset in context */
    long matrix;            /* offset in [sequences, heads, seq, seq] */
    long row;               /* offset in [sequences, heads, seq] */
    bool is_first_of_group;
};

struct head head_at(const struct attention *attention, long sequence, long head);

float attention_scale(const struct attention *attention);

/* Draws, for one query, which of the `n` keys from `key` on are kept by dropout. */
void attention_keeps(const struct attention *attention, const struct head *head, long query,
                     long key, long n, uint8_t *keeps);

/* The factor on kept probabilities, 1 / (1 - dropout). */
float attention_kept_scale(const struct attention *attention);

#endif
