/* calibration/measure/nvml.h - clocks and power of one GPU as its driver reports them, through
 * NVIDIA's management library. It is loaded on first use, so that the program starts without it. */
#ifndef CALIBRATION_MEASURE_NVML_H
#define CALIBRATION_MEASURE_NVML_H

#include "base/err.h"

#include <stdbool.h>

struct nvml;

/* Opens the driver's `index`-th GPU. NULL with ERR_UNAVAILABLE if that is not possible. */
struct nvml *nvml_open(int index, struct err *err);
void nvml_close(struct nvml *nvml); /* accepts NULL */

struct nvml_words {
    char gpu[96];    /* such as "NVIDIA H200" */
    char driver[80]; /* such as "580.159.04" */
};
/* A text is "" when the driver does not report it. */
struct nvml_words nvml_words(struct nvml *nvml);

/* The GPU's clocks and power at the moment of the call. A value is 0 when the driver does not
 * report it. */
struct nvml_reading {
    double sm_hz, memory_hz, power_w;
};
struct nvml_reading nvml_read(struct nvml *nvml);

#endif
