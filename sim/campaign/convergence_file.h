/* sim/campaign/convergence_file.h - constants of convergence as `calibrate --convergence` writes
 * them and `--convergence FILE` reads them. */
#ifndef SIM_CAMPAIGN_CONVERGENCE_FILE_H
#define SIM_CAMPAIGN_CONVERGENCE_FILE_H

#include "base/field.h"
#include "sim/campaign/convergence.h"

#include <jansson.h>

struct convergence_file {
    char source[320]; /* the runs they were fitted on, and which constants are the shipped ones */
    struct convergence convergence;
};

extern const struct field convergence_fields[];
extern const size_t num_convergence_fields;

/* Keys are the fields, "format": 1, and "descent" and "intervals", which are written for people
 * only. */
bool convergence_load(const char *path, struct convergence_file *out, struct err *err);
json_t *convergence_write(const struct convergence_file *file);

#endif
