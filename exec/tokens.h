/* exec/tokens.h - the training data of a step: sequences by their index in the global batch.
 *
 * A sequence depends only on the source, the seed, the step and its index in the batch, so every
 * layout gets the same sequences. */
#ifndef EXEC_TOKENS_H
#define EXEC_TOKENS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct token_source {
    unsigned char *bytes; /* a text whose bytes are the tokens; NULL: random tokens */
    size_t num_bytes;
    long vocab, seq;
    uint64_t seed;
};

/* Reads FILE into memory that the caller frees. ERR_INPUT when it has less than seq + 1 bytes, or
 * the vocabulary less than 256 tokens. */
bool token_source_open(const char *path, long vocab, long seq, uint64_t seed,
                       struct token_source *out, struct err *err);
void token_source_close(struct token_source *source);

/* Writes `count` sequences of the step's batch, from index `first`: ids and targets, each [count,
 * seq], with targets one token ahead. */
void tokens_of(const struct token_source *source, uint32_t step, long first, long count,
               int64_t *ids, int64_t *targets);

#endif
