/* The probability that a rank exceeds its GPU's memory, given the error of the predicted peak. */
#include "sim/engine/memory_interval.h"

#include "base/normal.h"

#include <math.h>

double memory_low_bytes(const struct stack *stack, double bytes)
{
    return bytes * exp(stack->memory.shift - stack->memory.error);
}

double memory_high_bytes(const struct stack *stack, double bytes)
{
    return bytes * exp(stack->memory.shift + stack->memory.error);
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

/* The logarithm of (GPU's memory / expected real peak). */
static double expected_room(const struct system *system, double bytes)
{
    return log(gpu_usable_bytes(&system->gpu) / bytes) - system->stack.memory.shift;
}

/* If the predicted peak has no error (sigma 0), the probability is 0 or 1. */
double memory_risk(const struct system *system, double bytes)
{
    double sigma = deviation(system);
    if (!(bytes > 0))
        return 0;
    if (!(sigma > 0))
        return expected_room(system, bytes) < 0 ? 1 : 0;
    return normal_cdf(-expected_room(system, bytes) / sigma);
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
    double usable = gpu_usable_bytes(&system->gpu), shift = system->stack.memory.shift;
    double room = risk >= 0.5 ? 0 : exceeded_with(risk) * deviation(system);
    return fmin(usable, usable * exp(-shift - room));
}
