/* calibration/measure/host_profile_part.h - parts of a measured cluster file that are the same for
 * cores and GPUs; only host_profile.c and gpu_profile.c include it. */
#ifndef CALIBRATION_MEASURE_HOST_PROFILE_PART_H
#define CALIBRATION_MEASURE_HOST_PROFILE_PART_H

#include "calibration/measure/host_profile.h"

/* A text with command, date, machine and software. */
void host_source_words(const struct host_measured *measured, char *text, size_t size);
/* Leave-one-out errors of the tables, the spread of repeats, and measurements without a key in a
 * profile. */
json_t *host_residuals_json(const struct host_measured *m, const struct kernel *kernels,
                            int num_kernels);
/* Half the width of a prediction's interval, in the logarithm of the time. */
double host_interval_of(const struct kernel *kernels, int num_kernels);
json_t *host_curves_json(const struct host_measured *m);
/* The machine as the innermost level of the network. */
json_t *host_level_json(const struct host_measured *m);

#endif
