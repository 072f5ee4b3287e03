/* calibration/measure/gpu_profile.h - writes measurements of GPUs as a cluster file. It contains
 * the datasheet of the GPU that the driver names, the profile shipped for that GPU with measured
 * ops instead of formulas, and the executor's stack. */
#ifndef CALIBRATION_MEASURE_GPU_PROFILE_H
#define CALIBRATION_MEASURE_GPU_PROFILE_H

#include "calibration/measure/host_profile.h"
#include "calibration/measure/nvml.h"

/* Readings of clock and power while ops were timed. */
struct gpu_log {
    struct nvml_words words;
    double *sm_hz, *power_w; /* arrays of num_readings */
    int num_readings;
};

/* Whether a cluster file can be made: ERR_UNAVAILABLE when no file in calibration/hardware lists
 * the GPU's name. */
bool gpu_is_known(const struct nvml_words *words, struct err *err);

/* Returns the cluster file, which the caller frees; NULL if the GPU is not known. */
json_t *gpu_cluster_json(const struct host_measured *measured, const struct gpu_log *log,
                         const struct stack *stack, struct err *err);

#endif
