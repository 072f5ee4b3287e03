#include "sim/engine/memory_interval.h"

#include <math.h>

/* Half width of 90 % of a normal distribution, in its standard deviations. */
static const double normal_90 = 1.6448536269514722;

double memory_factor(const struct stack *stack)
{
    return exp(stack->memory.error);
}

double memory_fits_bytes(const struct system *system)
{
    const struct gpu *gpu = &system->gpu;
    double usable = fmin(gpu->memory_bytes, gpu_usable_bytes(gpu));
    return system->fits_bytes > 0 ? system->fits_bytes : usable;
}

static double deviation(const struct system *system)
{
    return system->stack.memory.error / normal_90;
}

static double normal_above(double z)
{
    return erfc(z / sqrt(2)) / 2;
}

/* A peak that is known to the byte fits or does not. */
double memory_risk(const struct system *system, double bytes)
{
    double usable = gpu_usable_bytes(&system->gpu);
    double sigma = deviation(system);
    if (!(sigma > 0) || !(bytes > 0))
        return bytes > usable ? 1 : 0;
    return normal_above(log(usable / bytes) / sigma);
}

/* The z that a normal variable is above with this probability, by bisection: no plan waits for it.
 */
static double normal_quantile(double risk)
{
    double low = 0, high = 40;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        *(normal_above(middle) > risk ? &low : &high) = middle;
    }
    return low;
}

double memory_planned_bytes(const struct system *system, double risk)
{
    double usable = gpu_usable_bytes(&system->gpu);
    return risk >= 0.5 ? usable : usable * exp(-normal_quantile(risk) * deviation(system));
}
