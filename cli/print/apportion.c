#include "cli/print/apportion.h"

#include <math.h>

/* Index of the largest remainder that is not yet rounded up; -1: none. */
static int largest_remainder(const double *parts, int count, double unit, const double *units)
{
    int largest = -1;
    double most = -1;
    for (int i = 0; i < count; i++) {
        double remainder = parts[i] / unit - units[i];
        if (remainder >= 0 && remainder > most) {
            most = remainder;
            largest = i;
        }
    }
    return largest;
}

void apportion(const double *parts, int count, double unit, double *units)
{
    double sum = 0, floors = 0;
    for (int i = 0; i < count; i++) {
        units[i] = floor(parts[i] / unit);
        sum += parts[i];
        floors += units[i];
    }
    int left = (int)fmin(round(sum / unit) - floors, count);
    for (; left > 0; left--) {
        int largest = largest_remainder(parts, count, unit, units);
        if (largest < 0)
            return;
        units[largest]++;
    }
}
