/* base/file.h - whole files in, whole files out.
 *
 * A file that is written appears complete or not at all: temporary file in the same folder (0600,
 * O_EXCL | O_NOFOLLOW), fsync, rename, fsync of the folder. A link or a device is never replaced.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/err.h"

#include <stddef.h>

enum { FILE_MAX_BYTES = 16 << 20 };

/* The text of a regular file of at most `max_bytes`, NUL-terminated; the caller frees. NULL on
 * failure, `where` = the path. length may be NULL. */
char *file_read(const char *path, size_t max_bytes, size_t *length, struct err *err);

bool file_write(const char *path, const char *bytes, size_t length, struct err *err);

bool file_exists(const char *path);

/* Names (without `.json`) of the JSON files in a folder, sorted; caller frees each and the array.
 * An absent folder has none. */
char **file_list_json(const char *folder, size_t *count);

/* Where the data files are: $SIMSEARCH_DATA alone when it is set, else the source tree that holds
 * the binary, else PREFIX/share/simsearch beside PREFIX/bin. `folder` is "models/presets",
 * "calibration/hardware"
 * ... The path is written to `path`; false when no such folder is found. */
bool file_data_folder(const char *folder, char *path, size_t size);

#endif
