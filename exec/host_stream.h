/* exec/host_stream.h - the host's streams and events: a stream is a thread that works off a queue,
 * an event a count of records that were reached. Only exec/device_host.c includes it. */
#ifndef EXEC_HOST_STREAM_H
#define EXEC_HOST_STREAM_H

#include "base/random.h"
#include "exec/device.h"

#include <pthread.h>
#include <stdatomic.h>

/* What all streams of a device share. Streams and events are listed so that an abort finds them. */
struct host_streams {
    pthread_mutex_t mutex; /* of the lists */
    struct stream *streams;
    struct event *events;
    uint64_t num_streams; /* ever made: each has its own random pauses */
    double delay_most_s;
    uint64_t delay_seed;
    atomic_bool aborted;
};

void host_streams_init(struct host_streams *streams, const struct device_options *options);
void host_streams_release(struct host_streams *streams);
void host_streams_abort(struct host_streams *streams);

struct stream *host_stream_new(struct host_streams *streams, const char *name, struct err *err);
void host_stream_free(struct stream *stream);
bool host_stream_sync(struct stream *stream, struct err *err);
void host_stream_call(struct stream *stream, void (*function)(void *args), const void *args,
                      size_t size);

struct event *host_event_new(struct host_streams *streams);
void host_event_free(struct event *event);
void host_event_record(struct stream *stream, struct event *event);
void host_event_wait(struct stream *stream, struct event *event);
bool host_event_sync(struct event *event, struct err *err);
double host_event_elapsed_s(struct event *from, struct event *to);

#endif
