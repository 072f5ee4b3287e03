/* exec/device/device.h - a device: memory, in-order streams of work, and events between streams.
 *
 * The host device and the CUDA device offer this table with the same guarantees: work on a stream
 * runs in the order of issue, asynchronously; streams run concurrently, and only events order them.
 * A program that forgets an event is wrong on both. */
#ifndef EXEC_DEVICE_DEVICE_H
#define EXEC_DEVICE_DEVICE_H

#include "base/err.h"
#include "exec/device/region.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct stream;
struct event;
struct graph;

struct device_options {
    int local_rank;      /* index of the GPU on its machine; the host device ignores it */
    size_t arena_bytes;  /* memory for `alloc`, touched when the device is opened; a GPU with less
                            free memory gives all it has */
    bool poisons;        /* every byte is set to 0xff (a NaN in all types) before and after use */
    double delay_most_s; /* host: longest random pause before a piece of work, so that a forgotten
                            event fails in tests; 0: none */
    uint64_t delay_seed;
};

/* Most bytes of arguments for `call`. */
enum { STREAM_ARGS_BYTES = 512 };

/* Arguments are not NULL unless stated. `close`, `stream_free` and `event_free` free their argument
 * and accept NULL. */
struct device_api {
    const char *name; /* "host", "cuda" */
    bool uses_cores;  /* work runs on the process's threads, so other load slows it */

    /* Whether the machine has a device for that local rank; else ERR_UNAVAILABLE with the
     * reason. */
    bool (*is_there)(int local_rank, struct err *err);
    /* NULL with ERR_UNAVAILABLE (no such device) or ERR_SYSTEM (no memory). */
    struct device *(*open)(const struct device_options *options, struct err *err);
    /* Streams and events must have been freed. */
    void (*close)(struct device *device);
    /* From any thread: issued work that has not begun never runs, every wait ends, and stream_sync
     * and event_sync fail from then on. */
    void (*abort)(struct device *device);

    /* Memory from the arena, aligned to REGION_ALIGNMENT, for work issued on `stream` from now on;
     * NULL with ERR_SYSTEM when no free part is large enough. Freed memory may be reused at once by
     * work issued later on the same stream; a caller that shares memory between streams orders them
     * by events. Any thread. `stream` NULL: no work uses the memory. */
    void *(*alloc)(struct device *device, struct stream *stream, size_t bytes, struct err *err);
    void (*free)(struct device *device, struct stream *stream, void *memory);
    struct region_sizes (*memory)(struct device *device);
    /* Pinned host memory, for copies that run asynchronously; NULL with ERR_SYSTEM. When it is
     * freed, nothing may be reading or writing it; NULL is accepted. */
    void *(*pinned_alloc)(struct device *device, size_t bytes, struct err *err);
    void (*pinned_free)(struct device *device, void *memory);

    /* `name` is for messages and traces and is kept by reference. One thread at a time issues work
     * on a stream. */
    struct stream *(*stream_new)(struct device *device, const char *name, struct err *err);
    void (*stream_free)(struct stream *stream); /* waits for all work issued on it */
    /* Waits until all issued work has run. False with ERR_SYSTEM after an abort. */
    bool (*stream_sync)(struct stream *stream, struct err *err);
    /* Copies between any two of device and host memory. */
    void (*copy)(struct stream *stream, void *to, const void *from, size_t bytes);
    void (*fill)(struct stream *stream, void *to, int byte, size_t bytes);
    /* Sets *word = number when the stream reaches this place, for any host thread to read. The word
     * is in memory of pinned_alloc. */
    void (*post)(struct stream *stream, _Atomic uint32_t *word, uint32_t number);
    /* Runs function(args) on the host, on a copy of the `size` <= STREAM_ARGS_BYTES bytes at `args`
     * (aligned for any type). The host's kernels and communicators use it. (Optional: NULL on a
     * GPU, which would idle until a host thread has woken.) */
    void (*call)(struct stream *stream, void (*function)(void *args), const void *args,
                 size_t size);
    /* Sets *at_s to the machine's clock when the stream reaches this place; it is written by the
     * time of a stream_sync and must be valid until then. *own_s, unless NULL, gets the CPU time of
     * the stream's own thread; without such a thread, *at_s. */
    void (*note)(struct stream *stream, double *at_s, double *own_s);

    struct event *(*event_new)(struct device *device, struct err *err);
    void (*event_free)(struct event *event);
    /* Marks the place after all work issued on `stream`; an event is always recorded on the same
     * stream. */
    void (*record)(struct stream *stream, struct event *event);
    /* Later work on `stream` waits for the event's latest record so far, if any. */
    void (*wait)(struct stream *stream, struct event *event);
    bool (*event_sync)(struct event *event, struct err *err); /* the caller waits; as stream_sync */

    /* Graphs: work that is issued once and launched many times as one unit.
     *
     * Work issued on `stream` between capture_begin and capture_end does not run; it becomes a
     * graph, with copies of its arguments. Only copies, fills and kernels may be issued in between,
     * from one thread: no events, notes or posts. NULL when it failed or the device was stopped:
     * stream_sync says why. */
    void (*capture_begin)(struct stream *stream);
    struct graph *(*capture_end)(struct stream *stream);
    /* Launches the graph's work, in the order of issue, on the stream that it was captured on. */
    void (*graph_launch)(struct stream *stream, struct graph *graph);
    void (*graph_free)(struct graph *graph); /* while no launch of it is under way */
    /* Between these two calls the caller issues the graph's work again, for its own bookkeeping on
     * the host; none of it runs. The second returns false when the pieces of work were not the
     * same. */
    void (*graph_verify_begin)(struct stream *stream, struct graph *graph);
    bool (*graph_verify_end)(struct stream *stream);
};

extern const struct device_api device_host;

#endif
