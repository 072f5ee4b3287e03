/* Random deviations of passes and transfers from their mean times. */
#include "sim/engine/jitter.h"

#include "base/random.h"
#include "sim/cost/straggler.h"

#include <math.h>

/* Indices of draws that are made once per stage instead of per instruction. */
enum { OF_CHIPS = -1, OF_REPLICAS = -2 };

/* The first random number of the generator seeded with `key`; neighbouring keys give independent
 * numbers. */
static uint64_t first_bits(uint64_t key)
{
    struct random rng = { .key = key };
    return random_bits(&rng);
}

/* Uniform in (0, 1), ends excluded. */
static double uniform(uint64_t seed, int stage, int index)
{
    uint64_t place = (uint64_t)(uint32_t)stage << 32 | (uint32_t)index;
    return ((double)(first_bits(first_bits(seed) ^ place) >> 11) + 0.5) * 0x1p-53;
}

/* Draws the largest of n standard normals. */
static double draw(const struct jitter *jitter, int stage, int index, double n)
{
    return maximum_quantile(n, uniform(jitter->seed, stage, index));
}

/* The factor 1 + relative, at least 0.1. */
static double by(double relative)
{
    return fmax(0.1, 1 + relative);
}

double jitter_chips(const struct jitter *jitter, int stage)
{
    if (jitter->chip_spread <= 0)
        return 1;
    double slowest = draw(jitter, stage, OF_CHIPS, jitter->stage_ranks);
    return by(jitter->chip_spread * (slowest - expected_maximum(jitter->num_gpus)));
}

double jitter_pass(const struct jitter *jitter, int stage, int index)
{
    if (jitter->pass_spread <= 0)
        return 1;
    double slowest = draw(jitter, stage, index, jitter->pass_ranks);
    return by(jitter->pass_spread * (slowest - expected_maximum(jitter->pass_ranks)));
}

double jitter_transfer(const struct jitter *jitter, int stage, int index, enum wire wire,
                       int members)
{
    double spread = jitter->wire_spread[wire];
    return spread > 0 ? by(spread * draw(jitter, stage, index, members)) : 1;
}

double jitter_replicas_s(const struct jitter *jitter, int stage, double squares_s2)
{
    if (jitter->data_replicas <= 1 || jitter->pass_spread <= 0)
        return 0;
    double slowest = draw(jitter, stage, OF_REPLICAS, jitter->data_replicas);
    return fmax(0, jitter->pass_spread * sqrt(squares_s2) * slowest);
}
