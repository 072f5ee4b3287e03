/* Reads and writes one rank's file of a checkpoint. A slice is a block of one array of weights or
 * moments. */
#include "exec/run/checkpoint_file.h"

#include "base/arena.h"
#include "base/crc32c.h"
#include "models/blocks.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t magic = 0x54504b434d495353; /* "SSIMCKPT" on little-endian machines */

static_assert(sizeof(struct checkpoint_header) == 576, "sums must not see padding");
static_assert(sizeof(struct checkpoint_slice) == 88, "sums must not see padding");

/* --- the model ---------------------------------------------------------------------------- */

static uint32_t blocks_sum(const struct model *model)
{
    uint32_t sum = 0;
    for (int layer = 0; layer < model->layers && model->blocks.num_runs > 0; layer++) {
        struct block_kind kind = model_kind(model, model_kind_of(model, layer));
        const int32_t widths[] = { kind.heads, kind.kv_heads, kind.head_dim, kind.ffn };
        sum = crc32c(sum, widths, sizeof widths);
    }
    return sum;
}

struct checkpoint_model checkpoint_model_of(const struct model *model)
{
    return (struct checkpoint_model){ .num_kinds = model_num_kinds(model),
                                      .blocks_sum = blocks_sum(model),
#define X(name) .name = model->name,
                                      CHECKPOINT_MODEL(X) CHECKPOINT_MODEL_REALS(X)
#undef X
    };
}

bool checkpoint_model_is(const struct checkpoint_model *saved, const struct model *model,
                         struct err *err)
{
    struct checkpoint_model own = checkpoint_model_of(model);
#define DIFFERS(name, format)                                                                   \
    if (saved->name != own.name)                                                                \
        return err_set(err, ERR_INPUT, #name,                                                   \
                       "is " format " in the checkpoint, " format " in the model", saved->name, \
                       own.name);
#define X(name) DIFFERS(name, "%d")
    CHECKPOINT_MODEL(X)
#undef X
#define X(name) DIFFERS(name, "%g")
    CHECKPOINT_MODEL_REALS(X)
#undef X
    if (saved->num_kinds != own.num_kinds || saved->blocks_sum != own.blocks_sum)
        return err_set(err, ERR_INPUT, "blocks",
                       "differ in widths or order between the checkpoint and the model");
#undef DIFFERS
    return true;
}

/* --- bytes -------------------------------------------------------------------------------- */

static bool put(const struct checkpoint_file *file, const void *bytes, size_t length,
                uint64_t offset, struct err *err)
{
    const char *at = bytes;
    while (length > 0) {
        ssize_t done = pwrite(file->fd, at, length, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_set(err, ERR_SYSTEM, file->path, "cannot be written: %s", strerror(errno));
        at += done;
        offset += (uint64_t)done;
        length -= (size_t)done;
    }
    return true;
}

static bool get(const struct checkpoint_file *file, void *bytes, size_t length, uint64_t offset,
                struct err *err)
{
    char *at = bytes;
    while (length > 0) {
        ssize_t done = pread(file->fd, at, length, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_set(err, ERR_SYSTEM, file->path, "cannot be read: %s", strerror(errno));
        if (done == 0)
            return err_set(err, ERR_INPUT, file->path, "is cut short");
        at += done;
        offset += (uint64_t)done;
        length -= (size_t)done;
    }
    return true;
}

static uint64_t table_bytes(uint32_t num_slices)
{
    return num_slices * (uint64_t)sizeof(struct checkpoint_slice);
}

static uint32_t header_sum(struct checkpoint_header header)
{
    header.sum = 0;
    return crc32c(0, &header, sizeof header);
}

/* --- reading ------------------------------------------------------------------------------ */

static bool read_header(struct checkpoint_file *file, struct err *err)
{
    struct checkpoint_header *header = &file->header;
    if (!get(file, header, sizeof *header, 0, err))
        return false;
    if (header->magic != magic)
        return err_set(err, ERR_INPUT, file->path,
                       "is not a checkpoint, or is from a machine of another kind");
    if (header->format != CHECKPOINT_FORMAT)
        return err_set(err, ERR_INPUT, file->path,
                       "has format %u, but this program reads format %d", header->format,
                       CHECKPOINT_FORMAT);
    return header->sum == header_sum(*header) ||
           err_set(err, ERR_INPUT, file->path, "has a damaged header");
}

static bool is_possible(const struct checkpoint_slice *slice)
{
    return slice->columns > 0 && slice->count > 0 && slice->count <= CHECKPOINT_SLICE_ELEMENTS &&
           slice->array < CHECKPOINT_KEPT + MAX_CHECKPOINT_KEPT;
}

/* Slices follow one another from the end of their table to the end of the file. */
static bool check_size(const struct checkpoint_file *file, uint64_t end, struct err *err)
{
    if (file->bytes < end)
        return err_set(err, ERR_INPUT, file->path, "is cut short");
    return file->bytes == end ||
           err_set(err, ERR_INPUT, file->path, "has %llu bytes after its last slice",
                   (unsigned long long)(file->bytes - end));
}

static bool read_table(struct checkpoint_file *file, struct err *err)
{
    uint64_t bytes = table_bytes(file->header.num_slices), end = sizeof file->header + bytes;
    if (file->bytes < end)
        return check_size(file, end, err);
    file->slices = arena_grow(NULL, bytes + 1);
    bool ok = get(file, file->slices, bytes, sizeof file->header, err);
    bool is_right = ok && file->header.table_sum == crc32c(0, file->slices, bytes);
    for (uint32_t i = 0; i < file->header.num_slices && is_right; i++) {
        is_right = is_possible(&file->slices[i]) && file->slices[i].offset == end;
        end += sizeof(float) * file->slices[i].count;
    }
    if (!is_right)
        return err_set(err, ERR_INPUT, file->path, "has a damaged table of slices");
    return check_size(file, end, err);
}

/* Reports a missing file. If its folder is missing too, another run removed it, or a network file
 * system shows an older state. */
static bool fail_to_open(const char *path, struct err *err)
{
    char folder[sizeof((struct checkpoint_file *)0)->path];
    int cause = errno;
    struct stat about;
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    if (cause == ENOENT && slash && stat(folder, &about) == 0)
        return err_set(err, ERR_INPUT, path, "is missing");
    return err_set(err, ERR_SYSTEM, path, "cannot be opened: %s", strerror(cause));
}

static bool read_size(struct checkpoint_file *file, struct err *err)
{
    struct stat about;
    if (fstat(file->fd, &about) != 0)
        return err_set(err, ERR_SYSTEM, file->path, "cannot be read: %s", strerror(errno));
    file->bytes = (uint64_t)about.st_size;
    return S_ISREG(about.st_mode) || err_set(err, ERR_INPUT, file->path, "is not a regular file");
}

bool checkpoint_file_open(const char *path, struct checkpoint_file *file, struct err *err)
{
    /* O_NONBLOCK: a named pipe of this name must not block. */
    *file = (struct checkpoint_file){ .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) };
    if (file->fd < 0)
        return fail_to_open(path, err);
    snprintf(file->path, sizeof file->path, "%s", path);
    if (read_size(file, err) && read_header(file, err) && read_table(file, err))
        return true;
    checkpoint_file_close(file);
    return false;
}

bool checkpoint_file_read(const struct checkpoint_file *file, const struct checkpoint_slice *slice,
                          float *out, struct err *err)
{
    size_t bytes = sizeof *out * slice->count;
    return get(file, out, bytes, slice->offset, err) &&
           (crc32c(0, out, bytes) == slice->sum ||
            err_set(err, ERR_INPUT, file->path, "has damaged values of %s of layer %d", slice->name,
                    (int)slice->layer - 1));
}

/* --- writing ------------------------------------------------------------------------------ */

bool checkpoint_file_create(const char *path, uint32_t num_slices, struct checkpoint_file *file,
                            struct err *err)
{
    *file = (struct checkpoint_file){ .fd = -1 };
    snprintf(file->path, sizeof file->path, "%s", path);
    file->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return err_set(err, ERR_SYSTEM, path, "cannot be made: %s", strerror(errno));
    file->slices = arena_grow(NULL, table_bytes(num_slices) + 1);
    return true;
}

bool checkpoint_file_add(struct checkpoint_file *file, const struct checkpoint_slice *slice,
                         const float *floats, struct err *err)
{
    struct checkpoint_slice *to = &file->slices[file->header.num_slices++];
    size_t bytes = sizeof *floats * slice->count;
    *to = *slice;
    to->sum = crc32c(0, floats, bytes);
    return put(file, floats, bytes, slice->offset, err);
}

bool checkpoint_file_flush(const struct checkpoint_file *file, struct err *err)
{
    return fdatasync(file->fd) == 0 ||
           err_set(err, ERR_SYSTEM, file->path, "cannot be written: %s", strerror(errno));
}

bool checkpoint_file_finish(struct checkpoint_file *file, const struct checkpoint_header *header,
                            struct err *err)
{
    uint64_t bytes = table_bytes(file->header.num_slices);
    struct checkpoint_header whole = *header;
    whole.magic = magic;
    whole.format = CHECKPOINT_FORMAT;
    whole.num_slices = file->header.num_slices;
    whole.table_sum = crc32c(0, file->slices, bytes);
    whole.sum = header_sum(whole);
    return put(file, file->slices, bytes, sizeof whole, err) &&
           put(file, &whole, sizeof whole, 0, err) &&
           (fsync(file->fd) == 0 ||
            err_set(err, ERR_SYSTEM, file->path, "cannot be written: %s", strerror(errno)));
}

void checkpoint_file_close(struct checkpoint_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    free(file->slices);
    file->fd = -1;
    file->slices = NULL;
}
