/* calibration/host_drift.h - how far ranks drift apart while they compute. */
#ifndef CALIBRATION_HOST_DRIFT_H
#define CALIBRATION_HOST_DRIFT_H

#include "calibration/host_rank.h"

/* The variance of a rank's time, per second of it (struct profile), from how long ranks wait for
 * each other after every few milliseconds. */
bool host_drift(struct host_rank *host, double *drift_s, struct err *err);

#endif
