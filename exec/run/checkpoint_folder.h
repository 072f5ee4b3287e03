/* exec/run/checkpoint_folder.h - a folder of checkpoints, and the names in it. */
#ifndef EXEC_RUN_CHECKPOINT_FOLDER_H
#define EXEC_RUN_CHECKPOINT_FOLDER_H

#include "base/err.h"

#include <stddef.h>

/* The path of the folder "step-000000012" with an ending, and of a rank's file in it. */
enum { CHECKPOINT_PATH = 512 };
void checkpoint_path(const char *folder, long step, const char *ending, char *path);
void checkpoint_rank_path(const char *checkpoint, int rank, char *path);

/* Makes `folder` when it is missing. ERR_SYSTEM when it cannot be written to, ERR_INPUT when its
 * name leaves no room for what it is to hold: to be asked before there is anything to lose. */
bool checkpoint_folder_open(const char *folder, struct err *err);

/* The newest step below `limit` that is there under its final name; -1: none, or `folder` cannot be
 * listed, which is ERR_SYSTEM. A folder that does not exist holds none. */
long checkpoint_before(const char *folder, long limit, struct err *err);

/* Opens `folder`, removes what killed runs left, and makes an empty one for `step` under its
 * temporary name. */
bool checkpoint_begin(const char *folder, long step, struct err *err);
/* Gives it its final name, in the place of one that has it. */
bool checkpoint_commit(const char *folder, long step, struct err *err);
/* Removes those older than the newest `kept` up to `step`. */
void checkpoint_prune(const char *folder, long step, int kept);
/* Takes it out of the row; where the folder may not be written it stays. */
void checkpoint_set_aside(const char *folder, long step);

#endif
