/* cli/imported.h - another framework's file as a job on a system, and functions that show it. */
#ifndef CLI_IMPORTED_H
#define CLI_IMPORTED_H

#include "cli/input/setup.h"
#include "interchange/target.h"

#include <jansson.h>

/* A file that was read, and its plan on a system. */
struct imported_job {
    const struct target *target;
    struct imported *imported;
    struct job start; /* the job before the file was read: the stack's defaults */
    struct setup setup;
    struct arena arena;
};

/* Reads files[0] of the options. If is_checked, a plan that breaks the simulator's own rules is an
 * error. Release `out` in either case. */
bool imported_load(struct options *options, const char *from, bool is_checked,
                   struct imported_job *out, struct err *err);
void imported_release(struct imported_job *job);
/* Whether the file's degrees are at least 1. Rules divide by them, so other degrees are an
 * error. */
bool imported_check_degrees(const struct imported *imported, const char *path, struct err *err);

json_t *imported_settings_json(const struct settings *settings);
/* A broken rule, or a setting that costs time or memory: {"rule", "sentence", "where", "found",
 * "fix"}. */
struct broken {
    const char *rule, *sentence, *where, *found, *fix;
};
json_t *broken_json(const struct broken *broken);
json_t *broken_rule_json(const struct target_rule *rule, const struct err *found);
/* All rules that the file breaks. */
json_t *imported_broken_json(const struct imported_job *answer);
void imported_print_settings(const char *title, const struct settings *settings);
void imported_print_broken(const json_t *list);

#endif
