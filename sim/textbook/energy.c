#include "sim/textbook/energy.h"

/* Energy is GPU hours times power; its carbon is energy times the grid's carbon intensity.
 * Patterson et al. 2021, without their factor for cooling. */
double textbook_energy_wh(double gpu_s, double power_w)
{
    double hour_s = 3600;
    return gpu_s / hour_s * power_w;
}

double textbook_gco2(double energy_wh, double grams_per_kwh)
{
    return energy_wh / 1000 * grams_per_kwh;
}
