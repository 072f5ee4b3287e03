/* calibration/measure/host_drift.h - how far ranks drift apart while they compute. */
#ifndef CALIBRATION_MEASURE_HOST_DRIFT_H
#define CALIBRATION_MEASURE_HOST_DRIFT_H

#include "calibration/measure/host_rank.h"

/* Measures the variance of a rank's time per second (drift_s of struct profile), from how long
 * ranks wait for each other every few milliseconds. */
bool host_drift(struct host_rank *host, double *drift_s, struct err *err);

#endif
