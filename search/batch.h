/* search/batch.h - global batches that divide well over data ranks and microbatches. */
#ifndef SEARCH_BATCH_H
#define SEARCH_BATCH_H

/* "A million tokens" often means 2^20 tokens, which is 4.9 % more. A batch within this fraction of
 * the requested batch counts as equal to it. */
#define BATCH_SHARE 0.05

/* Of the multiples of `unit` within BATCH_SHARE of `sequences`, those that halve most often are the
 * candidates, and the nearest of them is returned; 0: there is none. */
double batch_dividing(double sequences, double unit);

#endif
