/* tests/draw.h - random test data: equal seeds give equal data on every machine. */
#ifndef TESTS_DRAW_H
#define TESTS_DRAW_H

#include "base/random.h"
#include "tests/testing.h"

/* fresh_seed returns the environment's SEED, or a new seed at each call, which the caller must
 * print. told_seed also prints the seed. */
uint64_t fresh_seed(void);
uint64_t told_seed(void);

int within(struct random *rng, int least,
           int most); /* a uniform integer from least to most, both included */
double between(struct random *rng, double low, double high);
int pick(struct random *rng, const int *from, int count);

/* Gives every third model two kinds of blocks: the first few wider, or every second narrower. */
struct model;
void draw_blocks(struct model *model, uint64_t seed);
/* Gives a third of the models one or two modules that predict later tokens. */
void draw_modules(struct model *model, uint64_t seed);
/* Gives some or all blocks experts, in a third of the draws. */
void draw_experts(struct model *model, uint64_t seed);

double random_between(double low, double high); /* uses rand() */

#define PICK(rng, ...) \
    pick(rng, (const int[]){ __VA_ARGS__ }, LENGTH(((const int[]){ __VA_ARGS__ })))

#endif
