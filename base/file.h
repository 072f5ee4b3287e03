/* base/file.h - reads and writes whole files.
 *
 * A file is written completely or not at all: by a temporary file in the same folder (O_EXCL |
 * O_NOFOLLOW), fsync, rename, and fsync of the folder. A new file gets the default mode (umask); an
 * existing file keeps its mode. A link or a device is never replaced.
 *
 * The path "-" is standard input or standard output. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/err.h"

#include <dirent.h>
#include <stddef.h>

enum { FILE_MAX_BYTES = 16 << 20 };

/* Returns the text of a regular file of at most `max_bytes`, NUL-terminated; the caller frees it.
 * NULL on failure, `where` = the path. length may be NULL. Standard input may be read repeatedly,
 * also by child processes: input from a pipe is kept in an unlinked file. */
char *file_read(const char *path, size_t max_bytes, size_t *length, struct err *err);

/* Writing to standard output always succeeds here; errors appear when it is flushed. */
bool file_write(const char *path, const char *bytes, size_t length, struct err *err);

bool file_exists(const char *path);
bool file_is_folder(const char *path);

/* Whether `name` is a path rather than the name of shipped data: it is "-", contains a slash, or
 * ends in `suffix` (".json"). */
bool file_is_path(const char *name, const char *suffix);

/* The part of the path after its last slash, or all of it. */
const char *file_own_name(const char *path);

/* The path as messages show it: "standard input" for "-". */
const char *file_shown(const char *path);

/* Like opendir(), but running out of memory ends the program. */
DIR *file_open_folder(const char *path);

/* Names (without `.json`) of the JSON files in a folder, sorted; the caller frees each name and the
 * array. An absent folder has none. */
char **file_list_json(const char *folder, size_t *count);

/* Finds a folder of data files: under $SIMSEARCH_DATA if that is set, else in the source tree that
 * contains the binary, else in PREFIX/share/simsearch if the binary is in PREFIX/bin. `folder` is
 * a name such as "models/presets". The path is written to `path`; false when no such folder is
 * found. */
bool file_data_folder(const char *folder, char *path, size_t size);

#endif
