#include "tests/draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

uint64_t fresh_seed(void)
{
    const char *given = getenv("SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct random rng =
        random_new((uint64_t)now.tv_sec, (uint64_t)now.tv_nsec ^ (uint64_t)getpid());
    return given ? strtoull(given, NULL, 10) : random_bits(&rng) >> 32;
}

uint64_t told_seed(void)
{
    uint64_t seed = fresh_seed();
    printf("SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

int within(struct random *rng, int least, int most)
{
    return least + random_below(rng, most - least + 1);
}

double between(struct random *rng, double low, double high)
{
    return low + (high - low) * random_unit(rng);
}

int pick(struct random *rng, const int *from, int count)
{
    return from[random_below(rng, count)];
}

double random_between(double low, double high)
{
    return low + (high - low) * rand() / RAND_MAX;
}
