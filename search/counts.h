/* search/counts.h - numbers of GPUs that a job may ask a cluster for, and the same search on each.
 *
 * A job takes a part of one node, or whole nodes. */
#ifndef SEARCH_COUNTS_H
#define SEARCH_COUNTS_H

#include "base/arena.h"
#include "search/method.h"

/* All counts up to `most`, rising. In the arena. */
struct values counts_all(const struct cluster *cluster, int most, struct arena *arena);

/* The counts that people choose: `most` itself; divisors of a node; and 2^k or 3 x 2^k whole nodes,
 * or as many nodes as divide `most`. Rising. */
struct values counts_usual(const struct cluster *cluster, int most, struct arena *arena);

/* A request's search on another count, in silence; the clock of its time limit began at `start_s`.
 * False where the request or the system cannot be used with so many. */
bool counts_prepare(const struct search_request *asked, int num_gpus, double start_s,
                    struct arena *arena, struct prepared *out);

#endif
