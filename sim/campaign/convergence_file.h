/* sim/campaign/convergence_file.h - the file of convergence constants that `calibrate
 * --convergence` writes and `--convergence FILE` reads. */
#ifndef SIM_CAMPAIGN_CONVERGENCE_FILE_H
#define SIM_CAMPAIGN_CONVERGENCE_FILE_H

#include "base/field.h"
#include "sim/campaign/convergence.h"

#include <jansson.h>

struct convergence_file {
    char source[320]; /* in words: the runs of the fit, and which constants were not fitted */
    struct convergence convergence;
};

extern const struct field convergence_fields[];
extern const size_t num_convergence_fields;

/* The file's keys are the fields and "format": 1. It may also have "descent" and "intervals", which
 * the program writes for people and does not read. */
bool convergence_load(const char *path, struct convergence_file *out, struct err *err);
json_t *convergence_write(const struct convergence_file *file);

#endif
