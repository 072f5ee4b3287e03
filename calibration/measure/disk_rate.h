/* calibration/measure/disk_rate.h - measures how fast all ranks together can write checkpoints; the
 * time ends when fsync returns. */
#ifndef CALIBRATION_MEASURE_DISK_RATE_H
#define CALIBRATION_MEASURE_DISK_RATE_H

#include "calibration/measure/host_rank.h"

/* All ranks together write `bytes` to files in `folder` and remove them. *bytes_per_s is their
 * total rate; 0 when a rank cannot write there, which is no error. */
bool disk_rate_measure(struct host_rank *host, const char *folder, double bytes,
                       double *bytes_per_s, struct err *err);

#endif
