/* calibration/disk_rate.h - how fast checkpoints can be written: by all ranks at once, until the
 * disk says that it has them. */
#ifndef CALIBRATION_DISK_RATE_H
#define CALIBRATION_DISK_RATE_H

#include "calibration/host_rank.h"

/* `bytes` by all ranks together, into files in `folder` that are removed again. *bytes_per_s of all
 * together: 0 where a rank cannot write there, which is no error. */
bool disk_rate_measure(struct host_rank *host, const char *folder, double bytes,
                       double *bytes_per_s, struct err *err);

#endif
