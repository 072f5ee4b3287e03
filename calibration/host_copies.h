/* calibration/host_copies.h - how fast a device and the host's memory copy to each other, which
 * bounds offloading and a checkpoint's copy to the host. */
#ifndef CALIBRATION_HOST_COPIES_H
#define CALIBRATION_HOST_COPIES_H

#include "calibration/host_rank.h"

/* Rates of one rank's device while all ranks copy; the host's side is pinned. */
struct host_copies {
    double up_bytes_per_s;   /* to the device */
    double down_bytes_per_s; /* from it */
    double both_bytes_per_s; /* the sum of both directions at once */
};

/* `bytes` a copy; takes as much twice of each memory. Means over the ranks, which all call it
 * together. */
bool host_copies_measure(struct host_rank *host, size_t bytes, struct host_copies *out,
                         struct err *err);

#endif
