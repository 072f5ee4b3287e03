/* search/counts.h - the numbers of GPUs of a cluster that a job may use, and how a request's search
 * is repeated on another number of GPUs.
 *
 * A job uses part of one node, or whole nodes. */
#ifndef SEARCH_COUNTS_H
#define SEARCH_COUNTS_H

#include "base/arena.h"
#include "search/method.h"

/* All counts up to `most`, in rising order. The array is in the arena. */
struct values counts_all(const struct cluster *cluster, int most, struct arena *arena);

/* The counts that people usually choose, in rising order: `most` itself, divisors of a node's
 * number of GPUs, 2^k or 3 x 2^k whole nodes, and whole nodes whose GPUs divide `most`. */
struct values counts_usual(const struct cluster *cluster, int most, struct arena *arena);

/* Prepares a request's search on another number of GPUs, without progress reports; its time limit
 * counts from `start_s`. False when the request or the system does not allow that number. */
bool counts_prepare(const struct search_request *asked, int num_gpus, double start_s,
                    struct arena *arena, struct prepared *out);

#endif
