/* calibration/disk_rate.h - how fast all ranks together can write checkpoints, until the disk
 * confirms them. */
#ifndef CALIBRATION_DISK_RATE_H
#define CALIBRATION_DISK_RATE_H

#include "calibration/host_rank.h"

/* Writes `bytes` by all ranks together, into files in `folder` that are removed again. *bytes_per_s
 * is the rate of all together; 0 where a rank cannot write there, which is no error. */
bool disk_rate_measure(struct host_rank *host, const char *folder, double bytes,
                       double *bytes_per_s, struct err *err);

#endif
