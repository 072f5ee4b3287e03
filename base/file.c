/* Reads and writes whole files, and finds the folder with this program's data. */
#include "base/file.h"

#include "base/arena.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_regular(int fd)
{
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

static bool is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

const char *file_shown(const char *path)
{
    return is_standard(path) ? "standard input" : path;
}

const char *file_own_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool file_is_path(const char *name, const char *suffix)
{
    return is_standard(name) || strchr(name, '/') || text_ends_in(name, suffix);
}

/* Opens a regular file. Without O_NONBLOCK, opening a FIFO would wait for a writer before it is
 * rejected. */
static int open_regular(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        err_set(err, ERR_INPUT, path, "cannot be opened: %s", strerror(errno));
        return -1;
    }
    if (is_regular(fd))
        return fd;
    err_set(err, ERR_INPUT, path, "is not a regular file");
    close(fd);
    return -1;
}

/* Reads until the end of file, as files in /proc report size 0. */
static char *read_all(int fd, size_t max_bytes, size_t *length)
{
    size_t capacity = 1 << 12;
    char *bytes = arena_grow(NULL, capacity);
    ssize_t got = 1;
    for (*length = 0; got != 0 && *length <= max_bytes;) {
        if (*length + 1 == capacity)
            bytes = arena_grow(bytes, capacity *= 2);
        got = read(fd, bytes + *length, capacity - *length - 1);
        if (got < 0 && errno != EINTR)
            goto failed;
        *length += got > 0 ? (size_t)got : 0;
    }
    bytes[*length] = '\0';
    return bytes;
failed:
    free(bytes);
    return NULL;
}

static bool write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t put = write(fd, bytes, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        bytes += put;
        length -= (size_t)put;
    }
    return true;
}

/* Replaces a pipe or a terminal by an unnamed file, which can be read twice. */
static bool keep_standard_input(size_t max_bytes)
{
    size_t length;
    char *bytes = read_all(STDIN_FILENO, max_bytes, &length);
    if (!bytes)
        return false;
    FILE *file = tmpfile();
    bool is_kept = file && write_all(fileno(file), bytes, length) &&
                   dup2(fileno(file), STDIN_FILENO) == STDIN_FILENO;
    if (file)
        fclose(file);
    free(bytes);
    return is_kept;
}

/* Opens the file anew, so that reading starts at its beginning. */
static int open_standard_input(size_t max_bytes, struct err *err)
{
    int fd = -1;
    if (is_regular(STDIN_FILENO) || keep_standard_input(max_bytes))
        fd = open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        err_set(err, ERR_SYSTEM, file_shown("-"), "cannot be read: %s", strerror(errno));
    return fd;
}

char *file_read(const char *path, size_t max_bytes, size_t *length, struct err *err)
{
    int fd = is_standard(path) ? open_standard_input(max_bytes, err) : open_regular(path, err);
    if (fd < 0)
        return NULL;
    size_t total;
    char *bytes = read_all(fd, max_bytes, &total);
    if (!bytes)
        err_set(err, ERR_SYSTEM, file_shown(path), "cannot be read: %s", strerror(errno));
    close(fd);
    if (bytes && total > max_bytes) {
        err_set(err, ERR_INPUT, file_shown(path), "expected at most %zu bytes; the file has more",
                max_bytes);
        free(bytes);
        return NULL;
    }
    if (length)
        *length = total;
    return bytes;
}

/* Only regular files may be replaced: rename() would also replace /dev/null or a link. */
static bool may_be_replaced(const char *path, struct err *err)
{
    struct stat about;
    if (lstat(path, &about) != 0 || S_ISREG(about.st_mode))
        return true;
    return err_set(err, ERR_INPUT, path, "exists and is not a regular file");
}

/* Creates a temporary file beside `path`. A name that exists belongs to another thread or to a
 * killed run, so the next name is tried. The new file is private until it gets the mode of the file
 * that it replaces. */
static int create_beside(const char *path, char *name, size_t size)
{
    int fd = -1;
    struct stat old;
    bool replaces = lstat(path, &old) == 0;
    for (int attempt = 0; attempt < 1000; attempt++) {
        snprintf(name, size, "%s.%ld-%d.tmp", path, (long)getpid(), attempt);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  replaces ? 0600 : 0666);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    if (fd >= 0 && replaces)
        fchmod(fd, old.st_mode & 0777);
    return fd;
}

/* Makes the rename survive a power cut. Some file systems do not support it, and the file is
 * complete either way, so failures are ignored. */
static void sync_folder_of(const char *path)
{
    size_t length = (size_t)(file_own_name(path) - path);
    char *folder = arena_grow(NULL, length + 2);
    memcpy(folder, path, length);
    memcpy(folder + length, ".", 2);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

bool file_write(const char *path, const char *bytes, size_t length, struct err *err)
{
    if (is_standard(path)) {
        fwrite(bytes, 1, length, stdout);
        return true;
    }
    if (!may_be_replaced(path, err))
        return false;
    size_t size = strlen(path) + 64;
    char *temporary = arena_grow(NULL, size);
    bool written = false;
    int fd = create_beside(path, temporary, size);
    if (fd < 0)
        goto done;
    written = write_all(fd, bytes, length) && fsync(fd) == 0;
    written = close(fd) == 0 && written;
    written = written && rename(temporary, path) == 0;
done:
    if (!written)
        err_set(err, ERR_SYSTEM, path, "cannot be written: %s", strerror(errno));
    if (!written && fd >= 0)
        unlink(temporary);
    free(temporary);
    if (written)
        sync_folder_of(path);
    return written;
}

bool file_exists(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* The part of `name` before ".json", or NULL. Hidden files are ignored. */
static char *json_stem(const char *name)
{
    size_t length = strlen(name);
    if (name[0] == '.' || length < 6 || strcmp(name + length - 5, ".json") != 0)
        return NULL;
    char *stem = arena_grow(NULL, length - 4);
    memcpy(stem, name, length - 5);
    stem[length - 5] = '\0';
    return stem;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

DIR *file_open_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder && errno == ENOMEM)
        arena_exhausted(0);
    return folder;
}

char **file_list_json(const char *folder, size_t *count)
{
    *count = 0;
    DIR *listing = file_open_folder(folder);
    if (!listing)
        return NULL;
    char **names = NULL;
    for (struct dirent *entry = readdir(listing); entry; entry = readdir(listing)) {
        char *stem = json_stem(entry->d_name);
        if (!stem)
            continue;
        names = arena_extend(names, *count, sizeof *names);
        names[(*count)++] = stem;
    }
    closedir(listing);
    if (*count > 0)
        qsort(names, *count, sizeof *names, compare_names);
    return names;
}

bool file_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool is_folder(const char *parent, const char *child)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", parent, child);
    return length > 0 && (size_t)length < sizeof path && file_is_folder(path);
}

static bool is_source_tree(const char *root)
{
    char makefile[PATH_MAX];
    int length = snprintf(makefile, sizeof makefile, "%s/Makefile", root);
    return length > 0 && (size_t)length < sizeof makefile && file_exists(makefile) &&
           is_folder(root, "models/presets") && is_folder(root, "calibration");
}

/* Changes `path` to its parent folder. False at the root of the file system. */
static bool to_parent(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return false;
    *slash = '\0';
    return true;
}

/* The source tree is up to six folders above the binary: build/release/tests/sim/cost/test_piece.
 */
static bool find_source_tree(const char *binary, char *root, size_t size)
{
    snprintf(root, size, "%s", binary);
    for (int level = 0; level < 6 && to_parent(root); level++)
        if (is_source_tree(root))
            return true;
    return false;
}

/* The folder that holds models/presets, calibration/hardware and so on. */
static bool find_data(char *root, size_t size)
{
    const char *chosen = getenv("SIMSEARCH_DATA");
    if (chosen && *chosen)
        return snprintf(root, size, "%s", chosen) < (int)size;
    char binary[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", binary, sizeof binary - 1);
    if (length < 0)
        return false;
    binary[length] = '\0';
    if (find_source_tree(binary, root, size))
        return true;
    return to_parent(binary) && snprintf(root, size, "%s/../share/simsearch", binary) < (int)size;
}

bool file_data_folder(const char *folder, char *path, size_t size)
{
    char root[PATH_MAX];
    if (!find_data(root, sizeof root) || !is_folder(root, folder))
        return false;
    int length = snprintf(path, size, "%s/%s", root, folder);
    return length > 0 && (size_t)length < size;
}
