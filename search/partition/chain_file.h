/* search/partition/chain_file.h - a chain of operators in a JSON file:
 *
 *   { "ranks": 8, "tokens": 4096, "width": 1024, "reduce_scatter": true, "memory": "40 GB",
 *     "operators": [ { "name": "W1", "kind": "product", "width": 4096 },
 *                    { "name": "gelu", "kind": "pointwise" },
 *                    { "name": "W2", "kind": "product", "width": 1024, "allowed": ["row"] } ] }
 *
 * X has `tokens` rows of `width` values, S values in all. A product changes the width to its own;
 * other operators keep the width. `allowed` restricts the shardings of the operator's kind. */
#ifndef SEARCH_PARTITION_CHAIN_FILE_H
#define SEARCH_PARTITION_CHAIN_FILE_H

#include "base/field.h"
#include "search/partition/chain.h"

struct chain_file {
    int ranks, tokens, width;
    bool has_reduce_scatter;
    double element_bytes;
    double memory_bytes; /* memory of one rank; 0: no limit */
    struct chain_product products[MAX_OPERATORS];
    int num_products;
};

/* Names live in the arena. On failure `where` has file, line and key. */
bool chain_file_read(const char *path, struct arena *arena, struct chain_file *out,
                     struct err *err);
/* The chain as a partition problem. Its costs are in units of S (n - 1) / n, and its bytes are the
 * weights and outputs that one rank keeps. */
struct partition_problem chain_file_problem(const struct chain_file *file, struct arena *arena);
/* S in bytes. */
double chain_file_unit_bytes(const struct chain_file *file);

#endif
