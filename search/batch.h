/* search/batch.h - global batches that divide well over data ranks and microbatches. */
#ifndef SEARCH_BATCH_H
#define SEARCH_BATCH_H

/* A million tokens is often written for 2^20 of them, which is 4.9 % more: a batch within this
 * share of the one that was asked for counts as the same. */
#define BATCH_SHARE 0.05

/* The multiple of `unit` within BATCH_SHARE of `sequences` that halves most often, and of those the
 * nearest; 0: there is none. */
double batch_dividing(double sequences, double unit);

#endif
