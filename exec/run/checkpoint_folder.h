/* exec/run/checkpoint_folder.h - a folder of checkpoints, and the names in it. */
#ifndef EXEC_RUN_CHECKPOINT_FOLDER_H
#define EXEC_RUN_CHECKPOINT_FOLDER_H

#include "base/err.h"

#include <stddef.h>

/* The path of the folder "step-000000012" + `ending`, and of a rank's file in it. */
enum { CHECKPOINT_PATH = 512 };
void checkpoint_path(const char *folder, long step, const char *ending, char *path);
void checkpoint_rank_path(const char *checkpoint, int rank, char *path);

/* Creates `folder` when it is missing. ERR_SYSTEM when it cannot be written to, ERR_INPUT when its
 * name is too long for the files in it. Call it before training. */
bool checkpoint_folder_open(const char *folder, struct err *err);

/* The newest step below `limit` whose folder has its final name; -1: none, or ERR_SYSTEM when
 * `folder` cannot be listed. A missing folder holds none. */
long checkpoint_before(const char *folder, long limit, struct err *err);

/* Opens `folder`, removes the remains of killed runs, and makes an empty folder for `step` under
 * its temporary name. */
bool checkpoint_begin(const char *folder, long step, struct err *err);
/* Renames the temporary folder of `step` to its final name, replacing any folder of that name. */
bool checkpoint_commit(const char *folder, long step, struct err *err);
/* Removes checkpoints up to `step` except the newest `kept`. */
void checkpoint_prune(const char *folder, long step, int kept);
/* Renames a damaged checkpoint; it stays when the folder is not writable. */
void checkpoint_set_aside(const char *folder, long step);

#endif
