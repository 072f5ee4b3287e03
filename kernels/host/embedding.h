/* kernels/host/embedding.h - token rows and learned positions (OP_EMBEDDING).
 *
 * A tensor rank holds the rows [first, first + rows) of the token table, [rows, width]; tokens
 * whose rows belong to other ranks get rows of zeros, so the sum over ranks is the result. y, dy
 * [tokens, width]. The backward reads the token ids and dy, and adds gradients in token order. */
#ifndef KERNELS_HOST_EMBEDDING_H
#define KERNELS_HOST_EMBEDDING_H

#include <stdint.h>

struct embedding {
    long tokens, width;
    int64_t first, rows;
};

void embedding_gather(const struct embedding *embedding, const int64_t *ids, const float *table,
                      float *y);
void embedding_accumulate(const struct embedding *embedding, const int64_t *ids, const float *dy,
                          float *dtable);

/* Learned positions: token t uses row t % seq of table[>= seq, width], which every tensor rank
 * holds whole. Before the sum over tensor ranks, one rank adds the position rows to its y. The
 * gradient sums over all tokens and is the same on all ranks. */
struct positions {
    long tokens, width, seq;
};
void positions_add(const struct positions *positions, const float *table, float *y);
void positions_accumulate(const struct positions *positions, const float *dy, float *dtable);

#endif
