/* calibration/fit/constant.h - a constant of a profile or a stack, by file and key.
 *
 * Keys are those of the file: "gemm_efficiency", "attention.flash2.half_seq", "gemm_tiles[2]" (the
 * third tile's speed). Files that share a value are joined by a plus sign:
 * "profiles/a100-80g-sxm+a100-40g-sxm". */
#ifndef CALIBRATION_FIT_CONSTANT_H
#define CALIBRATION_FIT_CONSTANT_H

#include "base/err.h"
#include "sim/cost/hardware.h"

#include <jansson.h>

struct constant {
    const char *file; /* such as "profiles/a100-80g-sxm"; borrowed */
    const char *key;  /* borrowed */
    bool is_of_stack;
    const char *names;  /* names of the profiles or stacks; a part of `file` */
    struct field field; /* its offset is from the start of struct profile or stack */
};

/* Finds a constant. ERR_INPUT with an empty `where` if there is none. */
bool constant_find(const char *file, const char *key, struct constant *out, struct err *err);

/* Whether the system uses the constant's profile or stack, or one of them. */
bool constant_is_of(const struct constant *constant, const struct system *system);
/* Whether `file` is one of the constant's files. */
bool constant_is_in(const struct constant *constant, const char *file);
/* Its i-th file, such as "profiles/a100-40g-sxm"; false if it has fewer. */
bool constant_file(const struct constant *constant, int i, char *file, size_t size);
double constant_get(const struct constant *constant, const struct system *system);
void constant_set(const struct constant *constant, struct system *system, double value);

/* Converts a constant from and to the JSON of a file: a number, or text with a unit. */
bool constant_read(const struct constant *constant, const json_t *value, double *out,
                   struct err *err);
json_t *constant_write(const struct constant *constant, double value);

/* Writes the value into the JSON of its file. ERR_INPUT with the key in `where` if the file lacks
 * the attention kernel or tile of the constant. */
bool constant_store(const struct constant *constant, double value, json_t *file, struct err *err);

#endif
