#include "tests/draw.h"

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
