/* search/partition/chain.h - matrix products one after the other, in units of S (n - 1) / n.
 *
 * Y = X W1 W2 W3 and its backward: the textbook's exercise of which weights to split by columns and
 * which by rows. The accounting, which the lecture's numbers follow from:
 *
 *   - X is on every rank, so that a row-parallel W1 takes its part of it for nothing;
 *   - between two products the activation is resharded forwards and its gradient backwards; both
 *     gradients of a product are then made of what its rank has;
 *   - the gradient of X is left as it comes (the input gradient is counted apart);
 *   - the loss takes Y whole or split, and gives its gradient laid out the same way; partial sums
 * of Y are all-reduced first;
 *   - an all-gather or a reduce-scatter of S is 1 unit, an all-reduce 2, a slice nothing.
 *
 * Between a column- and a row-parallel product nothing is sent. Row to column takes an all-reduce
 * each way, 4. Column to column an all-gather forwards and, backwards, a reduce-scatter of partial
 * sums, 2, or 3 with an all-reduce of which most is dropped; row to row the same in the other
 * order. A row-parallel end takes an all-reduce, 2. So column row column is 0 + 4 + 0 = 4, and
 * column column row is 3 + 0 + 2 = 5 where sums are all-reduced and 2 + 0 + 2 = 4 where they are
 * reduce-scattered: 5 against 4, and 4 and 4. */
#ifndef SEARCH_PARTITION_CHAIN_H
#define SEARCH_PARTITION_CHAIN_H

#include "search/partition/partition.h"

struct chain_product {
    const char *name;
    unsigned allowed;   /* bit set of enum sharding: of column, row, replicated and sequence */
    double output_size; /* in S, as all sizes */
    double weight_size; /* of the gradient that sequence-sharded ranks all-reduce */
};

struct chain {
    const struct chain_product *products;
    int num_products; /* up to MAX_OPERATORS */
    int num_ranks;
    bool has_reduce_scatter;
};

/* cost = comm = units; bytes are 0. Arrays in the arena. */
struct partition_problem chain_problem(const struct chain *chain, struct arena *arena);

#endif
