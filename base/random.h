/* base/random.h - pseudorandom numbers that are the same on every machine.
 *
 * A stream is a key and a count. Its nth number depends only on the key and n, so the order in
 * which workers draw does not matter. Not suitable for secrets. The generator is splitmix64
 * (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): { .key =
 * state } continues splitmix64 from that state. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t key, count;
};

/* Streams with different seeds or different stream numbers are independent. */
struct random random_new(uint64_t seed, uint64_t stream);

uint64_t random_bits(struct random *rng);
double random_unit(struct random *rng); /* uniform in [0, 1), 53 bits */
/* Uniform in [0, n), n in [1, 2^31); bias at most 2^-32. */
int random_below(struct random *rng, int n);
double random_normal(struct random *rng); /* mean 0, variance 1: Box and Muller 1958 */

#endif
