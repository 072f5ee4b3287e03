/* The kernels of kernels/cuda on the streams of device_cuda. */
#include "exec/cuda/kernels_cuda.h"

#include "base/arena.h"
#include "exec/cuda/device_cuda.h"
#include "kernels/cuda/gemm.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A rank usually launches kernels on two streams, compute and data. */
enum { MOST_STREAMS = 16, USUAL_STREAMS = 2 };

/* Scratch memory that belongs to one stream. */
struct workspace {
    struct stream *stream; /* its owner; NULL: not yet assigned */
    void *memory;
};

struct kernels {
    struct device *device;
    enum dtype storage;
    struct gemm *gemm;
    struct workspace workspaces[MOST_STREAMS];
    int num_workspaces;
};

/* --- opening and closing ------------------------------------------------------------------ */

/* Finds the path of the tuning table: $SIMSEARCH_GEMM_TABLE ("" disables it), else a file in the
 * user's cache folder. False when there is neither. */
static bool find_table(char *path, size_t size)
{
    const char *given = getenv("SIMSEARCH_GEMM_TABLE"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    char folder[PATH_MAX];
    if (given) {
        snprintf(path, size, "%s", given);
        return given[0] != '\0';
    }
    if (!cache && !home)
        return false;
    snprintf(folder, sizeof folder, "%s%s", cache ? cache : home, cache ? "" : "/.cache");
    mkdir(folder, 0777); /* on failure no table is written */
    snprintf(path, size, "%s/simsearch", folder);
    mkdir(path, 0777);
    snprintf(path, size, "%s/simsearch/gemm-2.table", folder); /* 2: version of the file format */
    return true;
}

static void close_kernels(struct kernels *kernels)
{
    if (!kernels)
        return;
    gemm_close(kernels->gemm);
    for (int i = 0; i < kernels->num_workspaces; i++)
        cudaFree(kernels->workspaces[i].memory);
    free(kernels);
}

static bool add_workspace(struct kernels *kernels)
{
    void *memory = NULL;
    cudaError_t error = kernels->num_workspaces < MOST_STREAMS
                            ? cudaMalloc(&memory, WORKSPACE_BYTES)
                            : cudaErrorInvalidValue;
    if (!device_check(kernels->device, error, "no workspace for one more stream"))
        return false;
    kernels->workspaces[kernels->num_workspaces++] = (struct workspace){ .memory = memory };
    return true;
}

/* Allocates workspaces before communication starts, as cudaMalloc may wait for the whole GPU. */
static bool open_workspaces(struct kernels *kernels, struct err *err)
{
    bool ok = true;
    for (int i = 0; i < USUAL_STREAMS && ok; i++)
        ok = add_workspace(kernels);
    return ok || failure_check(&kernels->device->failure, err);
}

static struct kernels *open_kernels(struct device *device, enum dtype storage, struct err *err)
{
    char path[PATH_MAX + 32];
    struct kernels *kernels = arena_grow(NULL, sizeof *kernels);
    *kernels = (struct kernels){ .device = device, .storage = storage };
    device_use(device);
    if ((kernels->gemm = gemm_open(find_table(path, sizeof path) ? path : NULL, err)) &&
        open_workspaces(kernels, err))
        return kernels;
    close_kernels(kernels);
    return NULL;
}

static size_t flash_scratch_bytes(const struct kernels *kernels, const struct attention *attention)
{
    (void)kernels;
    return launch_flash_scratch_bytes(attention);
}

/* --- calls -------------------------------------------------------------------------------- */

static void *workspace_of(struct kernels *kernels, struct stream *stream)
{
    for (int i = 0; i < kernels->num_workspaces || add_workspace(kernels); i++) {
        struct workspace *workspace = &kernels->workspaces[i];
        if (!workspace->stream)
            workspace->stream = stream;
        if (workspace->stream == stream)
            return workspace->memory;
    }
    return NULL;
}

/* Finds the launch data of a stream. False when no work can be issued on it. */
static bool find_launch(struct kernels *kernels, struct stream *stream, struct launch *out)
{
    if (!stream_takes(stream))
        return false;
    *out = (struct launch){ .stream = stream->cuda,
                            .storage = kernels->storage,
                            .workspace = workspace_of(kernels, stream),
                            .gemm = kernels->gemm };
    return out->workspace != NULL;
}

static void check_launch(struct kernels *kernels, cudaError_t status, const char *name)
{
    if (status == cudaSuccess)
        return;
    const char *failure = gemm_failure(kernels->gemm);
    char what[200];
    snprintf(what, sizeof what, "%s%s%s", name, failure[0] ? ": " : "", failure);
    device_check(kernels->device, status, what);
}

#define X(name, args)                                                        \
    static void issue_##name(struct kernels *kernels, struct stream *stream, \
                             const struct args *args)                        \
    {                                                                        \
        struct launch launch;                                                \
        if (find_launch(kernels, stream, &launch))                           \
            check_launch(kernels, launch_##name(&launch, args), #name);      \
    }
KERNELS(X)
EXCHANGE_KERNELS(X)
#undef X

const struct kernel_api kernels_cuda = { .name = "cuda",
                                         .open = open_kernels,
                                         .close = close_kernels,
                                         .flash_scratch_bytes = flash_scratch_bytes,
#define X(name, args) .name = issue_##name,
                                         KERNELS(X) EXCHANGE_KERNELS(X)
#undef X
};
