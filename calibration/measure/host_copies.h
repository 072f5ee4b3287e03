/* calibration/measure/host_copies.h - the rates of copies between a device and host memory, which
 * bound offloading and a checkpoint's copy to the host. */
#ifndef CALIBRATION_MEASURE_HOST_COPIES_H
#define CALIBRATION_MEASURE_HOST_COPIES_H

#include "calibration/measure/host_rank.h"

/* Rates of one rank's device while all ranks copy; host memory is pinned. */
struct host_copies {
    double up_bytes_per_s;   /* to the device */
    double down_bytes_per_s; /* from the device */
    double both_bytes_per_s; /* the sum of both directions at once */
};

/* Times copies of `bytes` each, in 2 `bytes` of host memory and of device memory. The results are
 * means over the ranks, which all call it together. */
bool host_copies_measure(struct host_rank *host, size_t bytes, struct host_copies *out,
                         struct err *err);

#endif
