#include "sim/engine/memory_interval.h"

#include "base/normal.h"

#include <math.h>

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

/* If the predicted peak has no error (sigma 0), the probability is 0 or 1. */
double memory_risk(const struct system *system, double bytes)
{
    double usable = gpu_usable_bytes(&system->gpu);
    double sigma = deviation(system);
    if (!(sigma > 0) || !(bytes > 0))
        return bytes > usable ? 1 : 0;
    return normal_cdf(-log(usable / bytes) / sigma);
}

/* The value that a standard normal variable exceeds with this probability. Bisection is fast
 * enough, as it runs once per search and not for each plan. normal_quantile(1 - risk) would fail
 * for risks below about 1e-16, as 1 - risk rounds to 1. */
static double exceeded_with(double risk)
{
    double low = 0, high = 40;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        *(normal_cdf(-middle) > risk ? &low : &high) = middle;
    }
    return low;
}

double memory_planned_bytes(const struct system *system, double risk)
{
    double usable = gpu_usable_bytes(&system->gpu);
    return risk >= 0.5 ? usable : usable * exp(-exceeded_with(risk) * deviation(system));
}
