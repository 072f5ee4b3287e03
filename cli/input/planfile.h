/* cli/input/planfile.h - a plan, and the model and system that it was predicted on, in one file.
 *
 * { "format": 1, "layout", "model", "cluster", "gpu", "profile", "stack", "prediction" }. Each part
 * is an object as in its own file, or a name; all but layout may be absent. The document of
 * `search --json` stands for its best plan, that of `simulate --json` for its plan. */
#ifndef CLI_INPUT_PLANFILE_H
#define CLI_INPUT_PLANFILE_H

#include "base/json.h"
#include "sim/engine/simulate.h"

/* Opens the file and checks its keys; the caller releases it. */
bool planfile_open(struct json_file *file, const char *path, struct err *err);

/* A part that is an object, or a name; NULL when it is not, or when no file was opened. */
const json_t *planfile_part(const struct json_file *file, const char *key);
const char *planfile_name(const struct json_file *file, const char *key);

/* Blames a fault in a plan file's parts on the file, not on the command line. */
bool planfile_blame(const struct json_file *file, const char *key, struct err *err);

/* The object of a plan file. Takes ownership of `prediction`; NULL: without one. */
json_t *planfile_json(const struct system *system, const struct model *model,
                      const struct plan *plan, json_t *prediction);

bool planfile_write(const char *path, const json_t *plan, struct err *err);

#endif
