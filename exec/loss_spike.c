#include "exec/loss_spike.h"

#include <math.h>

enum { LEAST_KNOWN = 10, WEIGHED = 50 };
static const double least_share = 1e-3;

double spike_deviation(const struct spike_watch *watch)
{
    return fmax(sqrt(watch->variance), least_share * fabs(watch->mean));
}

bool spike_seen(struct spike_watch *watch, double limit, double loss)
{
    double apart = loss - watch->mean;
    if (watch->count >= LEAST_KNOWN && apart > limit * spike_deviation(watch))
        return true;
    if (!isfinite(loss))
        return false;
    watch->count++;
    double weight = 1 / (double)(watch->count < WEIGHED ? watch->count : WEIGHED);
    watch->mean += weight * apart;
    watch->variance = (1 - weight) * (watch->variance + weight * apart * apart);
    return false;
}
