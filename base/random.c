#include "base/random.h"

#include <math.h>

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static const uint64_t golden_gamma = 0x9e3779b97f4a7c15u;

struct random random_new(uint64_t seed, uint64_t stream)
{
    return (struct random){ .key = mix(mix(seed + golden_gamma) + stream) };
}

uint64_t random_bits(struct random *rng)
{
    return mix(rng->key + golden_gamma * ++rng->count);
}

double random_unit(struct random *rng)
{
    return (double)(random_bits(rng) >> 11) * 0x1p-53;
}

int random_below(struct random *rng, int n)
{
    return (int)((random_bits(rng) >> 32) * (uint64_t)n >> 32);
}

double random_normal(struct random *rng)
{
    const double pi = 3.14159265358979323846;
    double radius = sqrt(-2 * log(1 - random_unit(rng)));
    return radius * cos(2 * pi * random_unit(rng));
}
