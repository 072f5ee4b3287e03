/* base/random.h - numbers that look random and are the same on every machine.
 *
 * A stream is a key and a count: its nth number depends on nothing else, so streams that workers
 * draw from in any order stay apart. Not for secrets. The generator is splitmix64 (Steele, Lea and
 * Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): { .key = state } continues
 * splitmix64 from that state. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t key, count;
};

/* Streams of one seed are independent, and so are the seeds of one stream. */
struct random random_new(uint64_t seed, uint64_t stream);

uint64_t random_bits(struct random *rng);
double random_unit(struct random *rng); /* in [0, 1), 53 bits */
/* In [0, n), n in [1, 2^31); bias at most 2^-32. */
int random_below(struct random *rng, int n);
double random_normal(struct random *rng); /* mean 0, variance 1: Box and Muller 1958 */

#endif
