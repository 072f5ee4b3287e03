/* The host's cores as a device of exec/device/device.h: its memory and its table of functions. */
#define _GNU_SOURCE // MAP_ANONYMOUS, madvise; NOLINT(bugprone-reserved-identifier)
#include "exec/device/device.h"

#include "base/arena.h"
#include "base/clock.h"
#include "exec/device/host_graph.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const int poison = 0xff;

struct device {
    struct host_streams streams;
    pthread_mutex_t mutex; /* protects the region */
    struct region *region;
    unsigned char *memory;
    size_t memory_bytes;
    bool poisons;
};

/* Maps and touches the memory, so that no timed step has page faults. */
static bool map_memory(struct device *device, size_t bytes, struct err *err)
{
    device->memory_bytes = bytes > 0 ? bytes : REGION_ALIGNMENT;
    void *memory = mmap(NULL, device->memory_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return err_set(err, ERR_SYSTEM, "memory", "%zu bytes cannot be allocated: %s",
                       device->memory_bytes, strerror(errno));
    device->memory = memory;
#ifdef MADV_HUGEPAGE
    madvise(memory, device->memory_bytes, MADV_HUGEPAGE);
#endif
    if (device->poisons)
        memset(memory, poison, device->memory_bytes);
    else
        for (size_t at = 0; at < device->memory_bytes; at += 4096)
            device->memory[at] = 0;
    return true;
}

static void host_close(struct device *device)
{
    if (!device)
        return;
    host_streams_release(&device->streams);
    if (device->memory)
        munmap(device->memory, device->memory_bytes);
    region_free(device->region);
    pthread_mutex_destroy(&device->mutex);
    free(device);
}

static bool host_is_there(int local_rank, struct err *err)
{
    (void)local_rank, (void)err;
    return true;
}

static struct device *host_open(const struct device_options *options, struct err *err)
{
    struct device *device = arena_grow(NULL, sizeof *device);
    *device = (struct device){ .poisons = options->poisons };
    host_streams_init(&device->streams, options);
    pthread_mutex_init(&device->mutex, NULL);
    device->region = region_new(options->arena_bytes);
    if (map_memory(device, options->arena_bytes, err))
        return device;
    host_close(device);
    return NULL;
}

static void host_abort(struct device *device)
{
    host_streams_abort(&device->streams);
}

static void host_copy(struct stream *stream, void *to, const void *from, size_t bytes);
static void host_fill(struct stream *stream, void *to, int byte, size_t bytes);

/* Fills memory with NaN in the stream's order, as work issued before a `free` may still read it. */
static void poison_memory(struct stream *stream, void *memory, size_t bytes)
{
    if (stream)
        host_fill(stream, memory, poison, bytes);
    else
        memset(memory, poison, bytes);
}

static void *host_alloc(struct device *device, struct stream *stream, size_t bytes, struct err *err)
{
    size_t offset;
    pthread_mutex_lock(&device->mutex);
    bool fits = region_take(device->region, bytes, &offset);
    struct region_sizes sizes = region_sizes(device->region);
    pthread_mutex_unlock(&device->mutex);
    if (!fits) {
        err_set(err, ERR_SYSTEM, "memory",
                "%zu bytes do not fit: %zu of the arena's %zu bytes are in use", bytes,
                sizes.used_bytes, sizes.capacity_bytes);
        return NULL;
    }
    if (device->poisons)
        poison_memory(stream, device->memory + offset, bytes);
    return device->memory + offset;
}

static void host_free(struct device *device, struct stream *stream, void *memory)
{
    if (!memory)
        return;
    pthread_mutex_lock(&device->mutex);
    size_t offset = (size_t)((unsigned char *)memory - device->memory);
    size_t bytes = region_give_back(device->region, offset);
    /* The mutex is still locked, because the memory must not be handed out before its fill is
     * issued. */
    if (device->poisons)
        poison_memory(stream, memory, bytes);
    pthread_mutex_unlock(&device->mutex);
}

static struct region_sizes host_memory(struct device *device)
{
    pthread_mutex_lock(&device->mutex);
    struct region_sizes sizes = region_sizes(device->region);
    pthread_mutex_unlock(&device->mutex);
    return sizes;
}

/* Plain memory suffices, because the stream's thread copies by itself. */
static void *host_pinned_alloc(struct device *device, size_t bytes, struct err *err)
{
    (void)device, (void)err;
    return arena_grow(NULL, bytes);
}

static void host_pinned_free(struct device *device, void *memory)
{
    (void)device;
    free(memory);
}

static struct stream *host_new_stream(struct device *device, const char *name, struct err *err)
{
    return host_stream_new(&device->streams, name, err);
}

struct copy_args {
    void *to;
    const void *from;
    int byte;
    size_t bytes;
};

static void run_copy(void *args)
{
    const struct copy_args *copy = args;
    memmove(copy->to, copy->from, copy->bytes);
}

static void host_copy(struct stream *stream, void *to, const void *from, size_t bytes)
{
    struct copy_args copy = { .to = to, .from = from, .bytes = bytes };
    if (bytes > 0)
        host_stream_call(stream, run_copy, &copy, sizeof copy);
}

static void run_fill(void *args)
{
    const struct copy_args *fill = args;
    memset(fill->to, fill->byte, fill->bytes);
}

static void host_fill(struct stream *stream, void *to, int byte, size_t bytes)
{
    struct copy_args fill = { .to = to, .byte = byte, .bytes = bytes };
    if (bytes > 0)
        host_stream_call(stream, run_fill, &fill, sizeof fill);
}

struct post_args {
    _Atomic uint32_t *word;
    uint32_t number;
};

static void run_post(void *args)
{
    const struct post_args *post = args;
    atomic_store(post->word, post->number);
}

static void host_post(struct stream *stream, _Atomic uint32_t *word, uint32_t number)
{
    struct post_args post = { word, number };
    host_stream_call(stream, run_post, &post, sizeof post);
}

struct note_args {
    double *at_s, *own_s;
};

static void run_note(void *args)
{
    const struct note_args *note = args;
    *note->at_s = clock_now_s();
    if (note->own_s)
        *note->own_s = clock_thread_s();
}

static void host_note(struct stream *stream, double *at_s, double *own_s)
{
    struct note_args note = { at_s, own_s };
    host_stream_call(stream, run_note, &note, sizeof note);
}

static struct event *host_new_event(struct device *device, struct err *err)
{
    (void)err;
    return host_event_new(&device->streams);
}

const struct device_api device_host = {
    .name = "host",
    .uses_cores = true,
    .is_there = host_is_there,
    .open = host_open,
    .close = host_close,
    .abort = host_abort,
    .alloc = host_alloc,
    .free = host_free,
    .memory = host_memory,
    .pinned_alloc = host_pinned_alloc,
    .pinned_free = host_pinned_free,
    .stream_new = host_new_stream,
    .stream_free = host_stream_free,
    .stream_sync = host_stream_sync,
    .copy = host_copy,
    .fill = host_fill,
    .post = host_post,
    .call = host_stream_call,
    .note = host_note,
    .event_new = host_new_event,
    .event_free = host_event_free,
    .record = host_event_record,
    .wait = host_event_wait,
    .event_sync = host_event_sync,
    .capture_begin = host_capture_begin,
    .capture_end = host_capture_end,
    .graph_launch = host_graph_launch,
    .graph_free = host_graph_free,
    .graph_verify_begin = host_graph_verify_begin,
    .graph_verify_end = host_graph_verify_end,
};
