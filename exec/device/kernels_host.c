/* The host's kernels, issued on streams: each call copies its arguments to the stream's thread,
 * which calls kernels/host. */
#include "exec/device/kernels.h"

#include "base/arena.h"
#include "kernels/host/stored.h"

#include <assert.h>
#include <stdlib.h>

struct kernels {
    struct host_kernels host;
};

static struct kernels *open_kernels(struct device *device, enum dtype storage, struct err *err)
{
    (void)device, (void)err;
    struct kernels *kernels = arena_grow(NULL, sizeof *kernels);
    struct err none = { 0 };
    kernels->host.storage = storage;
    if (!openblas_find(&kernels->host.blas, &none))
        kernels->host.blas = own_blas;
    return kernels;
}

static void close_kernels(struct kernels *kernels)
{
    free(kernels);
}

static size_t flash_scratch_bytes(const struct kernels *kernels, const struct attention *attention)
{
    (void)kernels;
    return sizeof(float) * (size_t)flash_attention_scratch(attention);
}

/* Per kernel: the struct sent to the stream's thread, and the function called there. */
#define X(name, args)                                                        \
    struct name##_call {                                                     \
        const struct host_kernels *kernels;                                  \
        struct args args;                                                    \
    };                                                                       \
    static void on_stream_##name(void *call)                                 \
    {                                                                        \
        struct name##_call *c = call;                                        \
        stored_##name(c->kernels, &c->args);                                 \
    }                                                                        \
    static void issue_##name(struct kernels *kernels, struct stream *stream, \
                             const struct args *args)                        \
    {                                                                        \
        struct name##_call call = { &kernels->host, *args };                 \
        static_assert(sizeof call <= STREAM_ARGS_BYTES,                      \
                      "a call must fit in a stream's arguments");            \
        device_host.call(stream, on_stream_##name, &call, sizeof call);      \
    }
KERNELS(X)
EXCHANGE_KERNELS(X)
HOST_KERNELS(X)
#undef X

const struct kernel_api kernels_host = { .name = "host",
                                         .open = open_kernels,
                                         .close = close_kernels,
                                         .flash_scratch_bytes = flash_scratch_bytes,
#define X(name, args) .name = issue_##name,
                                         KERNELS(X) EXCHANGE_KERNELS(X) HOST_KERNELS(X)
#undef X
};
