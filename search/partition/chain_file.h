/* search/partition/chain_file.h - a chain of operators in a JSON file:
 *
 *   { "ranks": 8, "tokens": 4096, "width": 1024, "reduce_scatter": true, "memory": "40 GB",
 *     "operators": [ { "name": "W1", "kind": "product", "width": 4096 },
 *                    { "name": "gelu", "kind": "pointwise" },
 *                    { "name": "W2", "kind": "product", "width": 1024, "allowed": ["row"] } ] }
 *
 * X has `tokens` rows of `width` values, S values in all. A product takes it to a width of its own;
 * other operators keep it. `allowed` restricts the shardings of the operator's kind. */
#ifndef SEARCH_PARTITION_CHAIN_FILE_H
#define SEARCH_PARTITION_CHAIN_FILE_H

#include "base/field.h"
#include "search/partition/chain.h"

struct chain_file {
    int ranks, tokens, width;
    bool has_reduce_scatter;
    double element_bytes;
    double memory_bytes; /* limit of a rank; 0: none */
    struct chain_product products[MAX_OPERATORS];
    int num_products;
};

/* Names live in the arena. On failure `where` has file, line and key. */
bool chain_file_read(const char *path, struct arena *arena, struct chain_file *out,
                     struct err *err);
/* Units are those of S; bytes are what a rank keeps of the weights and outputs. */
struct partition_problem chain_file_problem(const struct chain_file *file, struct arena *arena);
/* S in bytes. */
double chain_file_unit_bytes(const struct chain_file *file);

#endif
