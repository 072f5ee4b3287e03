/* search/questions/nearby.h - the best plan of a request that is nearly the one that was asked for.
 *
 * A count of GPUs with a large odd part, 1000 = 8 x 125, or such a batch, leaves few ways to divide
 * a model, or none. A little less of either can be much faster. */
#ifndef SEARCH_QUESTIONS_NEARBY_H
#define SEARCH_QUESTIONS_NEARBY_H

#include "search/search.h"

/* One such request; 0 GPUs: none has a plan. */
struct nearby {
    int num_gpus;
    double batch;
    struct scored_plan best; /* in the caller's arena */
};

/* Whether the GPUs are 2^k or 3 x 2^k whole nodes or parts of one, which divide as well as fewer.
 */
bool nearby_is_round(const struct search_request *asked);

/* Each takes the request that trains most tokens per second. Words of fix and forbid hold.
 *
 *   gpus    fewer GPUs, the batch as it is; with more than `least` tokens per second
 *   batch   another batch within BATCH_SHARE, on all GPUs
 *   both    a batch within BATCH_SHARE on a little fewer GPUs
 *
 * Counts are the largest of each odd part up to 31, in whole nodes or parts of one; batches those
 * that an odd part of the count divides and that halve most often. */
struct nearby nearby_gpus(const struct search_request *asked, double least, struct arena *arena);
struct nearby nearby_batch(const struct search_request *asked, struct arena *arena);
struct nearby nearby_both(const struct search_request *asked, struct arena *arena);

#endif
