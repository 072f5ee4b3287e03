#include "sim/cost/straggler.h"

#include <math.h>

/* Number of GPUs of the node on which a profile is measured. The profile already includes the
 * effect of the slowest of them. */
enum { MEASURED_GPUS = 8 };

double straggler_slowdown(double spread, int num_gpus)
{
    if (num_gpus <= MEASURED_GPUS)
        return 1;
    return 1 + spread * (expected_maximum(num_gpus) - expected_maximum(MEASURED_GPUS));
}

double drift_wait_s(double drift_s, double compute_s, int num_ranks)
{
    return drift_s > 0 ? expected_maximum(num_ranks) * sqrt(drift_s * compute_s) : 0;
}
