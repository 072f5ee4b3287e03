/* A folder of checkpoints: finds the latest one, begins and completes new ones, and removes old
 * ones. */
#include "exec/run/checkpoint_folder.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char temporary[] = ".tmp", replaced[] = ".old.tmp", damaged[] = ".damaged";

void checkpoint_path(const char *folder, long step, const char *ending, char *path)
{
    snprintf(path, CHECKPOINT_PATH, "%s/step-%09ld%s", folder, step, ending);
}

void checkpoint_rank_path(const char *checkpoint, int rank, char *path)
{
    snprintf(path, CHECKPOINT_PATH, "%s/rank-%05d", checkpoint, rank);
}

/* The step of "step-000000012" with this ending; -1: the name has another form. */
static long step_of(const char *name, const char *ending)
{
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    char *end;
    long step = strtol(name + 5, &end, 10);
    return strcmp(end, ending) == 0 ? step : -1;
}

static long fail_to_list(const char *folder, struct err *err)
{
    err_set(err, ERR_SYSTEM, folder, "cannot be listed: %s", strerror(errno));
    return -1;
}

long checkpoint_before(const char *folder, long limit, struct err *err)
{
    long newest = -1;
    DIR *listing = file_open_folder(folder);
    if (!listing)
        return errno == ENOENT || errno == ENOTDIR ? -1 : fail_to_list(folder, err);
    errno = 0; /* readdir sets it on an error, but not at the end */
    for (struct dirent *entry = readdir(listing); entry; entry = readdir(listing)) {
        long step = step_of(entry->d_name, "");
        if (step < limit && step > newest)
            newest = step;
    }
    if (errno != 0)
        newest = fail_to_list(folder, err);
    closedir(listing);
    return newest;
}

/* Removes a checkpoint's folder, which holds only files; a missing folder is no error. */
static void remove_checkpoint(const char *path)
{
    DIR *listing = file_open_folder(path);
    if (!listing)
        return;
    for (struct dirent *entry = readdir(listing); entry; entry = readdir(listing))
        unlinkat(dirfd(listing), entry->d_name, 0);
    closedir(listing);
    rmdir(path);
}

/* Removes one unfinished checkpoint; the caller lists the folder again, as removing changes the
 * listing. */
static bool remove_one_left_over(const char *folder)
{
    char path[CHECKPOINT_PATH] = "";
    DIR *listing = file_open_folder(folder);
    if (!listing)
        return false;
    for (struct dirent *entry = readdir(listing); entry && !path[0]; entry = readdir(listing))
        if (step_of(entry->d_name, temporary) >= 0 || step_of(entry->d_name, replaced) >= 0)
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    closedir(listing);
    if (!path[0])
        return false;
    remove_checkpoint(path);
    struct stat about;
    return lstat(path, &about) != 0;
}

bool checkpoint_folder_open(const char *folder, struct err *err)
{
    enum { MOST_LENGTH = CHECKPOINT_PATH - 64 };
    if (strlen(folder) > MOST_LENGTH)
        return err_set(err, ERR_INPUT, folder, "is longer than %d characters", MOST_LENGTH);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return err_set(err, ERR_SYSTEM, folder, "cannot be made: %s", strerror(errno));
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOTDIR)
        return err_set(err, ERR_SYSTEM, folder, "is not a folder");
    close(fd); /* has no effect on -1 */
    return access(folder, W_OK | X_OK) == 0 ||
           err_set(err, ERR_SYSTEM, folder, "cannot be written to: %s", strerror(errno));
}

bool checkpoint_begin(const char *folder, long step, struct err *err)
{
    char path[CHECKPOINT_PATH];
    if (!checkpoint_folder_open(folder, err))
        return false;
    while (remove_one_left_over(folder))
        ;
    checkpoint_path(folder, step, temporary, path);
    return mkdir(path, 0777) == 0 ||
           err_set(err, ERR_SYSTEM, path, "cannot be made: %s", strerror(errno));
}

/* Writes the folder's entries to disk, so that they survive a power cut. Errors are ignored, as
 * some file systems do not support it. */
static void sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

bool checkpoint_commit(const char *folder, long step, struct err *err)
{
    char from[CHECKPOINT_PATH], to[CHECKPOINT_PATH], old[CHECKPOINT_PATH];
    checkpoint_path(folder, step, temporary, from);
    checkpoint_path(folder, step, "", to);
    checkpoint_path(folder, step, replaced, old);
    sync_folder(from);
    if (rename(to, old) != 0 && errno != ENOENT)
        return err_set(err, ERR_SYSTEM, to, "cannot be replaced: %s", strerror(errno));
    if (rename(from, to) != 0)
        return err_set(err, ERR_SYSTEM, to, "cannot be given its final name: %s", strerror(errno));
    sync_folder(folder);
    remove_checkpoint(old);
    return true;
}

void checkpoint_prune(const char *folder, long step, int kept)
{
    char path[CHECKPOINT_PATH], gone[CHECKPOINT_PATH];
    struct err unlisted = { 0 };
    for (long at = step; at >= 0; at = checkpoint_before(folder, at, &unlisted)) {
        if (kept-- > 0)
            continue;
        checkpoint_path(folder, at, "", path);
        checkpoint_path(folder, at, replaced, gone);
        if (rename(path, gone) == 0)
            remove_checkpoint(gone);
    }
}

void checkpoint_set_aside(const char *folder, long step)
{
    char path[CHECKPOINT_PATH], aside[CHECKPOINT_PATH];
    checkpoint_path(folder, step, "", path);
    checkpoint_path(folder, step, damaged, aside);
    remove_checkpoint(aside);
    rename(path, aside);
}
