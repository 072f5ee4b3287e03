/* exec/device/device.h - a device: memory, in-order streams of work, and events between streams.
 *
 * The host device and the CUDA device implement this table with the same guarantees: work on a
 * stream runs in the order of issue, asynchronously; streams run concurrently, and only events
 * order them. A program that forgets an event is wrong on both. */
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
    int local_rank;     /* index of the GPU on its machine; the host device ignores it */
    size_t arena_bytes; /* memory for `alloc`, touched when the device is opened; a GPU with less
                           free memory uses all of it */
    bool poisons; /* fill memory with 0xff bytes (NaN in all types) before and after use, for tests
                   */
    double delay_most_s; /* host only: longest random pause before each piece of work, so that tests
                            fail if an event is missing; 0: none */
    uint64_t delay_seed;
};

/* Maximum size in bytes of the arguments of `call`. */
enum { STREAM_ARGS_BYTES = 512 };

/* No argument may be NULL unless stated. `close`, `stream_free` and `event_free` free their
 * argument and accept NULL. */
struct device_api {
    const char *name; /* "host", "cuda" */
    bool uses_cores;  /* work runs on CPU cores, so other load slows it down */

    /* Whether the machine has a device with that local rank; if not, ERR_UNAVAILABLE with the
     * reason. */
    bool (*is_there)(int local_rank, struct err *err);
    /* Returns NULL with ERR_UNAVAILABLE (no such device) or ERR_SYSTEM (no memory). */
    struct device *(*open)(const struct device_options *options, struct err *err);
    /* All streams and events must have been freed. */
    void (*close)(struct device *device);
    /* May be called on any thread. Work that has not begun never runs, every wait ends, and later
     * calls of stream_sync and event_sync fail. */
    void (*abort)(struct device *device);

    /* Allocates memory from the arena, aligned to REGION_ALIGNMENT, for work issued on `stream`
     * from now on; NULL with ERR_SYSTEM when no free part is large enough. Freed memory may be
     * reused at once by work issued later on the same stream; a caller that shares memory between
     * streams orders them by events. May be called on any thread. `stream` NULL: no work uses the
     * memory. */
    void *(*alloc)(struct device *device, struct stream *stream, size_t bytes, struct err *err);
    void (*free)(struct device *device, struct stream *stream, void *memory);
    struct region_sizes (*memory)(struct device *device);
    /* Allocates pinned host memory, which asynchronous copies need; NULL with ERR_SYSTEM. When it
     * is freed, no work may be using it; NULL is accepted. */
    void *(*pinned_alloc)(struct device *device, size_t bytes, struct err *err);
    void (*pinned_free)(struct device *device, void *memory);

    /* `name` is for messages and traces and is kept by reference. One thread at a time issues work
     * on a stream. */
    struct stream *(*stream_new)(struct device *device, const char *name, struct err *err);
    void (*stream_free)(struct stream *stream); /* waits for all work issued on the stream */
    /* Waits until all issued work has run. False with ERR_SYSTEM after an abort. */
    bool (*stream_sync)(struct stream *stream, struct err *err);
    /* Copies between any two memories of device and host. */
    void (*copy)(struct stream *stream, void *to, const void *from, size_t bytes);
    void (*fill)(struct stream *stream, void *to, int byte, size_t bytes);
    /* Sets *word = number when the stream reaches this place, for any host thread to read. The word
     * is in memory of pinned_alloc. */
    void (*post)(struct stream *stream, _Atomic uint32_t *word, uint32_t number);
    /* Runs function(args) on the host, on a copy of the `size` <= STREAM_ARGS_BYTES bytes at `args`
     * (aligned for any type). The host's kernels and communicators use it. Optional: NULL on a GPU,
     * which would idle until a host thread wakes up. */
    void (*call)(struct stream *stream, void (*function)(void *args), const void *args,
                 size_t size);
    /* Sets *at_s to the machine's clock when the stream reaches this place; *at_s must stay valid
     * until stream_sync returns; it is set by then. *own_s, unless NULL, gets the CPU time of the
     * stream's thread, or *at_s if the stream has no thread. */
    void (*note)(struct stream *stream, double *at_s, double *own_s);

    struct event *(*event_new)(struct device *device, struct err *err);
    void (*event_free)(struct event *event);
    /* Records the event after all work issued so far on `stream`. An event is always recorded on
     * the same stream. */
    void (*record)(struct stream *stream, struct event *event);
    /* Later work on `stream` waits for the event's latest record so far, if any. */
    void (*wait)(struct stream *stream, struct event *event);
    bool (*event_sync)(struct event *event,
                       struct err *err); /* the calling thread waits; returns as stream_sync */

    /* Graphs: work that is issued once and launched many times as one unit.
     *
     * Work issued on `stream` between capture_begin and capture_end does not run; it becomes a
     * graph, with copies of its arguments. Only copies, fills and kernels may be issued in between,
     * from one thread. capture_end returns NULL when it failed or the device was stopped;
     * stream_sync returns the reason. */
    void (*capture_begin)(struct stream *stream);
    struct graph *(*capture_end)(struct stream *stream);
    /* Launches the graph's work, in the order of issue, on the stream that it was captured on. */
    void (*graph_launch)(struct stream *stream, struct graph *graph);
    void (*graph_free)(struct graph *graph); /* no launch of it may be running */
    /* Between these two calls the caller issues the graph's work again, for its own bookkeeping on
     * the host; none of it runs. graph_verify_end returns false when the work differs from the
     * graph's: the host compares the functions of the calls, and CUDA the number of calls; neither
     * compares arguments. */
    void (*graph_verify_begin)(struct stream *stream, struct graph *graph);
    bool (*graph_verify_end)(struct stream *stream);
};

extern const struct device_api device_host;

#endif
