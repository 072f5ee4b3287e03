/* tests/draw.h - what tests draw at random: the same from a seed on every machine. */
#ifndef TESTS_DRAW_H
#define TESTS_DRAW_H

#include "base/random.h"
#include "tests/testing.h"

/* SEED of the environment, else another one each time, which whoever draws must tell; printed. */
uint64_t fresh_seed(void);
uint64_t told_seed(void);

int within(struct random *rng, int least, int most); /* both may come */
double between(struct random *rng, double low, double high);
int pick(struct random *rng, const int *from, int count);

/* Gives one model in three two kinds of blocks: the first few wider, or every second narrower. */
struct model;
void draw_blocks(struct model *model, uint64_t seed);

double random_between(double low, double high); /* by rand() */

#define PICK(rng, ...) \
    pick(rng, (const int[]){ __VA_ARGS__ }, LENGTH(((const int[]){ __VA_ARGS__ })))

#endif
