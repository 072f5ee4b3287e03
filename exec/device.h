/* exec/device.h - what computes: memory, streams of work in order, and events between streams.
 *
 * A device of the host and one of CUDA offer this same table, and the same promises: what is issued
 * on a stream runs in the order of issue and later than the call that issued it; streams run beside
 * each other, and only events order them. A program that forgets an event is wrong on both. */
#ifndef EXEC_DEVICE_H
#define EXEC_DEVICE_H

#include "base/err.h"
#include "exec/region.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct stream;
struct event;
struct graph;

struct device_options {
    int local_rank;      /* which of the machine's accelerators; the host has one */
    size_t arena_bytes;  /* of memory for `alloc`, touched when the device is opened; a GPU that has
                            less free gives what it has */
    bool poisons;        /* every byte is 0xff (a NaN in all types) before use and after */
    double delay_most_s; /* host: pauses of random length before pieces of work, at most this. A
                            program that forgets an event then fails in tests; 0: none */
    uint64_t delay_seed;
};

/* Bytes of arguments that `call` can take along. */
enum { STREAM_ARGS_BYTES = 512 };

/* Arguments are never NULL but where it is said. `close` frees what it is called on and accepts
 * NULL, and so do `stream_free` and `event_free`. */
struct device_api {
    const char *name; /* "host", "cuda" */
    bool uses_cores;  /* work runs on the process's threads: it lasts longer beside others' */

    /* Whether the machine has one for that local rank; else ERR_UNAVAILABLE, which says why. */
    bool (*is_there)(int local_rank, struct err *err);
    /* NULL with ERR_UNAVAILABLE (no such device) or ERR_SYSTEM (no memory). */
    struct device *(*open)(const struct device_options *options, struct err *err);
    /* Streams and events must have been freed. */
    void (*close)(struct device *device);
    /* From any thread: work that is issued and not begun never runs, and every wait ends; from here
     * on stream_sync and event_sync fail. */
    void (*abort)(struct device *device);

    /* Memory from the arena, aligned to REGION_ALIGNMENT, for work that is issued on `stream`
     * from now on; NULL with ERR_SYSTEM when no part is large enough. What is freed may be handed
     * out at once, to work that is issued later on the same stream; whoever shares memory between
     * streams orders them by events. Any thread. `stream` NULL: no work of it is under way. */
    void *(*alloc)(struct device *device, struct stream *stream, size_t bytes, struct err *err);
    void (*free)(struct device *device, struct stream *stream, void *memory);
    struct region_sizes (*memory)(struct device *device);
    /* Memory of the host's that copies to and from the device run beside everything else with; NULL
     * with ERR_SYSTEM. Nothing reads or writes it any more when it is freed; NULL is accepted. */
    void *(*pinned_alloc)(struct device *device, size_t bytes, struct err *err);
    void (*pinned_free)(struct device *device, void *memory);

    /* `name` is for messages and traces and is kept by reference. One thread at a time issues work
     * on a stream. */
    struct stream *(*stream_new)(struct device *device, const char *name, struct err *err);
    void (*stream_free)(struct stream *stream); /* waits for what was issued */
    /* Until all that was issued has run. False with ERR_SYSTEM after an abort. */
    bool (*stream_sync)(struct stream *stream, struct err *err);
    /* Between any two of the device's and the host's memories. */
    void (*copy)(struct stream *stream, void *to, const void *from, size_t bytes);
    void (*fill)(struct stream *stream, void *to, int byte, size_t bytes);
    /* *word = number when the stream comes to this place, for any thread of the host's to read. The
     * word is in what pinned_alloc gave. */
    void (*post)(struct stream *stream, _Atomic uint32_t *word, uint32_t number);
    /* Runs function(args) on the host, on a copy of the `size` <= STREAM_ARGS_BYTES bytes at
     * `args` (aligned for any type). The host's kernels and communicators are issued like this.
     * (Optional: NULL on a GPU, which would stand still until a thread has woken.) */
    void (*call)(struct stream *stream, void (*function)(void *args), const void *args,
                 size_t size);
    /* *at_s = when the stream comes to this place, by the machine's clock; it is there after a
     * stream_sync and must last until then. *own_s, unless it is NULL: the time that the stream's
     * own thread has computed; what has no such thread gives *at_s again. */
    void (*note)(struct stream *stream, double *at_s, double *own_s);

    struct event *(*event_new)(struct device *device, struct err *err);
    void (*event_free)(struct event *event);
    /* Marks the place after all that was issued on `stream`; an event is always recorded on the
     * same one. */
    void (*record)(struct stream *stream, struct event *event);
    /* Later work on `stream` waits for the event's latest record so far; without a record it does
     * not wait. */
    void (*wait)(struct stream *stream, struct event *event);
    bool (*event_sync)(struct event *event, struct err *err); /* the caller waits; as stream_sync */

    /* Graphs: work that is issued once and launched again and again, as one piece.
     *
     * What is issued on `stream` between the first two calls does not run; it becomes a graph, with
     * copies of its arguments. Copies, fills and kernels may be issued there, from one thread; no
     * event is recorded or waited for, no time noted and nothing posted. NULL when it failed, or
     * the device was stopped: stream_sync tells why. */
    void (*capture_begin)(struct stream *stream);
    struct graph *(*capture_end)(struct stream *stream);
    /* All of it, in the order of its issue; on the stream that it was captured on. */
    void (*graph_launch)(struct stream *stream, struct graph *graph);
    void (*graph_free)(struct graph *graph); /* no launch of it is under way */
    /* Between them what the graph consists of is issued again, for the sake of whoever issues it,
     * and none of it runs. False when it were not the same pieces. */
    void (*retell_begin)(struct stream *stream, struct graph *graph);
    bool (*retell_end)(struct stream *stream);
};

extern const struct device_api device_host;

#endif
