/* search/partition/chain.h - a chain of matrix products and the operators between them. Costs are
 * in units of S (n - 1) / n, where S is the size of X and n the number of ranks.
 *
 * Y = X W1 W2 W3 and its backward: the textbook exercise of which weights to split by columns and
 * which by rows. The lecture's numbers follow from this accounting:
 *
 *   - X is on every rank, so a row-parallel W1 slices X at no cost;
 *   - between two products the activation is resharded forwards and its gradient backwards; a rank
 *     then has all operands of both gradients of a product;
 *   - the gradient of X is not resharded (the input gradient is counted separately);
 *   - the loss takes Y whole or split and returns a gradient of the same layout; partial sums of Y
 *     are all-reduced first;
 *   - an all-gather or a reduce-scatter of S is 1 unit, an all-reduce 2, a slice 0.
 *
 * From a column- to a row-parallel product nothing is sent. Row to column takes an all-reduce each
 * way: 4. Column to column takes an all-gather forwards and a reduce-scatter of partial sums
 * backwards: 2, or 3 when an all-reduce replaces the reduce-scatter; row to row takes the same in
 * the other order. A row-parallel end takes an all-reduce: 2. So "column row column" costs 0 + 4 +
 * 0 = 4. "Column column row" costs 3 + 0 + 2 = 5 with all-reduces and 2 + 0 + 2 = 4 with
 * reduce-scatters. */
#ifndef SEARCH_PARTITION_CHAIN_H
#define SEARCH_PARTITION_CHAIN_H

#include "search/partition/partition.h"

struct chain_product {
    const char *name;
    unsigned allowed;   /* bit set of enum sharding; hidden is only for operators without weights */
    double output_size; /* in units of S, like all sizes here */
    double weight_size; /* size of the weight gradient, which sequence-sharded ranks all-reduce */
};

struct chain {
    const struct chain_product *products;
    int num_products;
    int num_ranks;
    bool has_reduce_scatter;
};

/* cost = comm = units; bytes are 0. Arrays in the arena. */
struct partition_problem chain_problem(const struct chain *chain, struct arena *arena);

#endif
