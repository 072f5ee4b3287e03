/* search/questions/nearby.h - the best plan for slightly fewer GPUs or a slightly different batch
 * than requested.
 *
 * A number of GPUs with a large odd factor, such as 1000 = 8 x 125, leaves few ways to divide a
 * model, or none; so does a batch with a large odd factor. Slightly fewer GPUs or sequences can be
 * much faster. */
#ifndef SEARCH_QUESTIONS_NEARBY_H
#define SEARCH_QUESTIONS_NEARBY_H

#include "search/search.h"

/* A changed request and its best plan. If num_gpus is 0, no changed request has a plan. */
struct nearby {
    int num_gpus;
    double batch;
    struct scored_plan best; /* in the caller's arena */
};

/* Whether the requested number of GPUs is 2^k or 3 x 2^k. Then no smaller number would be easier to
 * divide. */
bool nearby_is_round(const struct search_request *asked);

/* Each function returns the changed request that trains the most tokens per second. The words of
 * fix and forbid still apply.
 *
 * - nearby_gpus: fewer GPUs and the same batch, with more than `least` tokens per second;
 * - nearby_batch: all GPUs and another batch, which differs by at most BATCH_SHARE;
 * - nearby_both: slightly fewer GPUs and a batch that differs by at most BATCH_SHARE.
 *
 * For each odd factor up to 31, the largest number of GPUs with it is tried, in whole nodes or a
 * part of one node. Batches are multiples of the odd factor of the number of GPUs; of such
 * multiples, the one that can be halved most often is tried. */
struct nearby nearby_gpus(const struct search_request *asked, double least, struct arena *arena);
struct nearby nearby_batch(const struct search_request *asked, struct arena *arena);
struct nearby nearby_both(const struct search_request *asked, struct arena *arena);

#endif
