#include "sim/cost/power.h"

#include <math.h>

static const double exponent = 0.4, static_share = 1.0 / 7;

double power_speed(const struct gpu *gpu, const struct profile *profile)
{
    double full_w = profile->power_w;
    if (!(full_w > 0) || !(gpu->power_w > 0) || gpu->power_w >= full_w)
        return 1;
    double left = gpu->power_w / full_w - static_share;
    return pow(fmax(left, 0.01) / (1 - static_share), exponent);
}
