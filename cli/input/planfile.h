/* cli/input/planfile.h - plan files, which contain a plan and the model and system of its
 * prediction.
 *
 * { "format": 1, "layout", "model", "cluster", "gpu", "profile", "stack", "prediction" }. Each part
 * is an object as in its own file, or a name. All parts except layout may be absent. A document of
 * `search --json` is accepted for its best plan, a document of `simulate --json` for its plan. */
#ifndef CLI_INPUT_PLANFILE_H
#define CLI_INPUT_PLANFILE_H

#include "base/json.h"
#include "sim/engine/simulate.h"

/* Opens the file and checks its keys; the caller releases it. */
bool planfile_open(struct json_file *file, const char *path, struct err *err);

/* A part of the file that is an object or a name; NULL: it is absent or of another type, or no file
 * is open. */
const json_t *planfile_part(const struct json_file *file, const char *key);
const char *planfile_name(const struct json_file *file, const char *key);

/* If an error is about a part of a plan file, makes it name the file instead of the command line.
 */
bool planfile_blame(const struct json_file *file, const char *key, struct err *err);

/* Builds the object of a plan file. Takes ownership of `prediction`; NULL: without one. */
json_t *planfile_json(const struct system *system, const struct model *model,
                      const struct plan *plan, json_t *prediction);

bool planfile_write(const char *path, const json_t *plan, struct err *err);

#endif
