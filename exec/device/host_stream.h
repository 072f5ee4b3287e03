/* exec/device/host_stream.h - the host's streams and events: a stream is a thread that runs a queue
 * of work, and an event counts how many of its records in the stream have been reached. Only
 * device_host.c and the host's graphs include it. */
#ifndef EXEC_DEVICE_HOST_STREAM_H
#define EXEC_DEVICE_HOST_STREAM_H

#include "base/random.h"
#include "exec/device/device.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

/* Shared by all streams of a device. Streams and events are listed so that an abort can reach
 * them. */
struct host_streams {
    pthread_mutex_t mutex; /* guards the lists */
    struct stream *streams;
    struct event *events;
    uint64_t num_streams; /* number of streams ever made, which seeds each stream's random pauses */
    double delay_most_s;
    uint64_t delay_seed;
    atomic_bool aborted;
};

/* A piece of a stream's work. */
struct host_work {
    void (*function)(void *args);
    alignas(max_align_t) unsigned char args[STREAM_ARGS_BYTES];
};

/* Receives the work that is issued on a stream while the stream is diverted to this taker. */
struct host_taker {
    void (*take)(struct host_taker *taker, void (*function)(void *args), const void *args,
                 size_t size);
};

void host_streams_init(struct host_streams *streams, const struct device_options *options);
void host_streams_release(struct host_streams *streams);
void host_streams_abort(struct host_streams *streams);
/* Runs a piece of work unless the streams were aborted. */
void host_streams_run(struct host_streams *streams, struct host_work *work);

struct stream *host_stream_new(struct host_streams *streams, const char *name, struct err *err);
void host_stream_free(struct stream *stream);
bool host_stream_sync(struct stream *stream, struct err *err);
void host_stream_call(struct stream *stream, void (*function)(void *args), const void *args,
                      size_t size);

/* Diverts later work to `taker`; NULL: to the stream again. Returns the previous taker. */
struct host_taker *host_stream_divert(struct stream *stream, struct host_taker *taker);
struct host_streams *host_stream_shared(const struct stream *stream);

struct event *host_event_new(struct host_streams *streams);
void host_event_free(struct event *event);
void host_event_record(struct stream *stream, struct event *event);
void host_event_wait(struct stream *stream, struct event *event);
bool host_event_sync(struct event *event, struct err *err);

#endif
