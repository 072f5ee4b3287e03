/* sim/cost/datafile.h - functions for the JSON files of GPUs, clusters, profiles and stacks.
 *
 * Each file describes one thing and has `"format": 1`. It is found by file name, by one of its
 * "words" (ignoring case), or by path. */
#ifndef SIM_COST_DATAFILE_H
#define SIM_COST_DATAFILE_H

#include "base/err.h"
#include "base/field.h"
#include "base/json.h"

/* One kind of file. */
struct datafile_kind {
    const char *noun;   /* such as "GPU", for messages */
    const char *folder; /* such as "calibration/hardware" */
    /* folder whose files' "words" also name files of `folder`; NULL: none */
    const char *words_folder;
};

extern const struct datafile_kind gpu_files, cluster_files, profile_files, stack_files;

/* Opens the file called `name` and checks its format; the caller releases it. An unknown name is
 * ERR_USAGE, with the name in err->where and a message that suggests the nearest file. A faulty
 * file is ERR_INPUT. The "name" in the file must be its file name. */
bool datafile_open(const struct datafile_kind *kind, const char *name, struct json_file *file,
                   struct err *err);

/* Checks that "format" is 1 and, if they are present, that "sources" is an object of texts whose
 * keys are in `fields` and that "residuals" is an object. */
bool datafile_check(const struct field *fields, size_t n, const json_t *object, struct err *err);

/* Returns a new object with "format" and the `fields` of `in`. */
json_t *datafile_write(const struct field *fields, size_t n, const void *in);

/* Reads "fitted_on", the list of measured rows on which constants were fitted, at most MAX_FITTED
 * texts; it may be absent. The caller frees *rows. */
bool fitted_read(const json_t *list, char (**rows)[40], int *num_rows, struct err *err);
json_t *fitted_write(char (*rows)[40], int num_rows);

#endif
