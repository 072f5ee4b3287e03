/* base/json.h - reads JSON files and reports the line of an error.
 *
 * Jansson parses the text. This file adds a size limit, a depth limit (64), a check for duplicate
 * keys, and line numbers for errors that are found after parsing. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/err.h"

#include <jansson.h>

struct json_file {
    char *path;   /* owned */
    char *text;   /* owned */
    json_t *root; /* owned, always an object */
};

/* `{ 0 }` is empty; release accepts it. where = "FILE:LINE" on a syntax error, else "FILE". */
bool json_file_load(struct json_file *file, const char *path, struct err *err);
void json_file_release(struct json_file *file);

/* Turns an error whose `where` is a key path ("groups[0].levels[1].bandwidth") found in this file
 * into "FILE:LINE: key path". Returns false, so that `return json_file_blame(...)` is one step. */
bool json_file_blame(const struct json_file *file, struct err *err);

/* One-line or indented JSON (%.17g reals, keys in insertion order); the caller frees. */
char *json_text(const json_t *json, int indent);

/* Rejects keys of `object` that are not in `names`; the message suggests the nearest name. where =
 * the key. */
bool json_only_keys(const json_t *object, const char *const *names, size_t n, struct err *err);

/* The string when it is one line of plain text (base/plain.h), safe to show; else NULL. */
const char *json_plain_text(const json_t *value);

#endif
