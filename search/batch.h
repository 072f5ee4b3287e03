/* search/batch.h - global batches that divide well over data ranks and microbatches. */
#ifndef SEARCH_BATCH_H
#define SEARCH_BATCH_H

/* "A million tokens" often means 2^20 tokens, which is 4.9 % more. A batch within this fraction of
 * the requested batch counts as equal to it. */
#define BATCH_SHARE 0.05

/* Returns a multiple of `unit` that differs from `sequences` by at most the fraction BATCH_SHARE of
 * `sequences`; 0 if there is none. Of these multiples it is the one that can be halved most often
 * and still is a multiple of `unit`; on a tie it is the one nearest to `sequences`. */
double batch_dividing(double sequences, double unit);

#endif
