/* base/file.h - whole files in, whole files out.
 *
 * A file that is written appears complete or not at all: temporary file in the same folder
 * (O_EXCL | O_NOFOLLOW), fsync, rename, fsync of the folder. A new file gets the mode that the
 * umask leaves, an existing one keeps its own. A link or a device is never replaced.
 *
 * The path "-" is standard input or standard output. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/err.h"

#include <dirent.h>
#include <stddef.h>

enum { FILE_MAX_BYTES = 16 << 20 };

/* The text of a regular file of at most `max_bytes`, NUL-terminated; the caller frees. NULL on
 * failure, `where` = the path. length may be NULL. Standard input may be read again and again, also
 * by child processes: what comes through a pipe is kept in an unlinked file. */
char *file_read(const char *path, size_t max_bytes, size_t *length, struct err *err);

/* Writing to standard output never fails here: its failure shows when it is flushed. */
bool file_write(const char *path, const char *bytes, size_t length, struct err *err);

bool file_exists(const char *path);
bool file_is_folder(const char *path);

/* Whether `name` is a path, not the name of shipped data: "-", a slash in it, or `suffix` (".json")
 * at its end. */
bool file_is_path(const char *name, const char *suffix);

/* The part of the path behind its last slash, or all of it. */
const char *file_own_name(const char *path);

/* The path as messages show it: "standard input" for "-". */
const char *file_shown(const char *path);

/* opendir(); out of memory ends the program, as everywhere. */
DIR *file_open_folder(const char *path);

/* Names (without `.json`) of the JSON files in a folder, sorted; caller frees each and the array.
 * An absent folder has none. */
char **file_list_json(const char *folder, size_t *count);

/* Where the data files are: $SIMSEARCH_DATA alone when it is set, else the source tree that holds
 * the binary, else PREFIX/share/simsearch beside PREFIX/bin. `folder` is "models/presets",
 * "calibration/hardware"
 * ... The path is written to `path`; false when no such folder is found. */
bool file_data_folder(const char *folder, char *path, size_t size);

#endif
