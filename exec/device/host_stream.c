/* Streams and events of the host as a device: a stream is a thread with a queue of work. */
#include "exec/device/host_stream.h"

#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

struct stream {
    struct host_streams *shared;
    struct stream *next; /* in the device's list */
    const char *name;
    pthread_t thread;
    struct random delays;
    struct host_taker *taker; /* receives issued work; NULL: the queue does */

    pthread_mutex_t mutex; /* guards the members below */
    pthread_cond_t changed;
    struct host_work **queue; /* ring buffer with the oldest work at `first`; entries are reused */
    size_t capacity, first, count; /* `count` includes the running work */
    bool closing;
};

struct event {
    struct host_streams *shared;
    struct event *next;
    const struct stream *stream; /* stream it is recorded on; set by the first record */
    pthread_mutex_t mutex;       /* guards the members below */
    pthread_cond_t changed;
    uint64_t issued, reached; /* number of records issued and reached */
};

void host_streams_init(struct host_streams *streams, const struct device_options *options)
{
    pthread_mutex_init(&streams->mutex, NULL);
    streams->delay_most_s = options->delay_most_s;
    streams->delay_seed = options->delay_seed;
    atomic_init(&streams->aborted, false);
}

void host_streams_release(struct host_streams *streams)
{
    assert(!streams->streams && !streams->events && "freed before their device is closed");
    pthread_mutex_destroy(&streams->mutex);
}

static void wake(pthread_mutex_t *mutex, pthread_cond_t *changed)
{
    pthread_mutex_lock(mutex);
    pthread_cond_broadcast(changed);
    pthread_mutex_unlock(mutex);
}

void host_streams_abort(struct host_streams *streams)
{
    atomic_store(&streams->aborted, true);
    pthread_mutex_lock(&streams->mutex);
    for (struct stream *stream = streams->streams; stream; stream = stream->next)
        wake(&stream->mutex, &stream->changed);
    for (struct event *event = streams->events; event; event = event->next)
        wake(&event->mutex, &event->changed);
    pthread_mutex_unlock(&streams->mutex);
}

static bool is_aborted(struct host_streams *streams)
{
    return atomic_load(&streams->aborted);
}

void host_streams_run(struct host_streams *streams, struct host_work *work)
{
    if (!is_aborted(streams))
        work->function(work->args);
}

static bool fail_aborted(const char *where, struct err *err)
{
    return err_set(err, ERR_SYSTEM, where, "the device was stopped before its work was done");
}

/* Flushes denormal floats to zero, as GPUs do: each costs about a hundred cycles. */
static void flush_denormals(void)
{
#if defined(__SSE__)
    const unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040;
    _mm_setcsr(_mm_getcsr() | flush_to_zero | denormals_are_zero);
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | (1u << 24)));
#endif
}

static void pause_at_random(struct stream *stream)
{
    if (stream->shared->delay_most_s <= 0 || random_below(&stream->delays, 2) == 0)
        return;
    double pause_s = random_unit(&stream->delays) * stream->shared->delay_most_s;
    struct timespec pause = { .tv_sec = (time_t)pause_s };
    pause.tv_nsec = (long)(1e9 * (pause_s - (double)pause.tv_sec));
    nanosleep(&pause, NULL);
}

/* The oldest work; NULL when the stream must end. The caller holds the mutex. */
static struct host_work *next_work(struct stream *stream)
{
    while (stream->count == 0 && !stream->closing)
        pthread_cond_wait(&stream->changed, &stream->mutex);
    return stream->count > 0 ? stream->queue[stream->first] : NULL;
}

static void *run_stream(void *argument)
{
    struct stream *stream = argument;
    flush_denormals();
    pthread_mutex_lock(&stream->mutex);
    for (struct host_work *work; (work = next_work(stream)) != NULL;) {
        pthread_mutex_unlock(&stream->mutex);
        pause_at_random(stream);
        host_streams_run(stream->shared, work);
        pthread_mutex_lock(&stream->mutex);
        stream->first = (stream->first + 1) % stream->capacity;
        stream->count--;
        if (stream->count == 0)
            pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->mutex);
    return NULL;
}

static void release_stream(struct stream *stream)
{
    for (size_t i = 0; i < stream->capacity; i++)
        free(stream->queue[i]);
    free(stream->queue);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->mutex);
    free(stream);
}

struct stream *host_stream_new(struct host_streams *streams, const char *name, struct err *err)
{
    struct stream *stream = arena_grow(NULL, sizeof *stream);
    *stream = (struct stream){ .shared = streams, .name = name };
    pthread_mutex_init(&stream->mutex, NULL);
    pthread_cond_init(&stream->changed, NULL);
    pthread_mutex_lock(&streams->mutex);
    stream->delays = random_new(streams->delay_seed, streams->num_streams++);
    int status = pthread_create(&stream->thread, NULL, run_stream, stream);
    if (status == 0) {
        stream->next = streams->streams;
        streams->streams = stream;
    }
    pthread_mutex_unlock(&streams->mutex);
    if (status == 0)
        return stream;
    release_stream(stream);
    err_set(err, ERR_SYSTEM, name, "a thread could not be started: %s", strerror(status));
    return NULL;
}

static void leave_list(struct stream *stream)
{
    pthread_mutex_lock(&stream->shared->mutex);
    struct stream **link = &stream->shared->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    pthread_mutex_unlock(&stream->shared->mutex);
}

void host_stream_free(struct stream *stream)
{
    if (!stream)
        return;
    leave_list(stream);
    pthread_mutex_lock(&stream->mutex);
    stream->closing = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    pthread_join(stream->thread, NULL);
    release_stream(stream);
}

bool host_stream_sync(struct stream *stream, struct err *err)
{
    pthread_mutex_lock(&stream->mutex);
    while (stream->count > 0)
        pthread_cond_wait(&stream->changed, &stream->mutex);
    pthread_mutex_unlock(&stream->mutex);
    return !is_aborted(stream->shared) || fail_aborted(stream->name, err);
}

/* Doubles the capacity and moves the oldest work to the front. */
static void grow_queue(struct stream *stream)
{
    size_t capacity = stream->capacity > 0 ? 2 * stream->capacity : 16;
    struct host_work **queue = arena_grow(NULL, capacity * sizeof(struct host_work *));
    for (size_t i = 0; i < stream->capacity; i++)
        queue[i] = stream->queue[(stream->first + i) % stream->capacity];
    for (size_t i = stream->capacity; i < capacity; i++)
        queue[i] = arena_grow(NULL, sizeof(struct host_work));
    free(stream->queue);
    stream->queue = queue;
    stream->capacity = capacity;
    stream->first = 0;
}

void host_stream_call(struct stream *stream, void (*function)(void *args), const void *args,
                      size_t size)
{
    assert(size <= STREAM_ARGS_BYTES);
    if (stream->taker) {
        stream->taker->take(stream->taker, function, args, size);
        return;
    }
    pthread_mutex_lock(&stream->mutex);
    if (stream->count == stream->capacity)
        grow_queue(stream);
    struct host_work *work = stream->queue[(stream->first + stream->count) % stream->capacity];
    work->function = function;
    if (size > 0)
        memcpy(work->args, args, size);
    stream->count++;
    if (stream->count == 1)
        pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
}

struct host_taker *host_stream_divert(struct stream *stream, struct host_taker *taker)
{
    struct host_taker *before = stream->taker;
    stream->taker = taker;
    return before;
}

struct host_streams *host_stream_shared(const struct stream *stream)
{
    return stream->shared;
}

/* --- events --------------------------------------------------------------------------------- */

struct ticket {
    struct event *event;
    uint64_t number; /* number of the record to wait for */
};

struct event *host_event_new(struct host_streams *streams)
{
    struct event *event = arena_grow(NULL, sizeof *event);
    *event = (struct event){ .shared = streams };
    pthread_mutex_init(&event->mutex, NULL);
    pthread_cond_init(&event->changed, NULL);
    pthread_mutex_lock(&streams->mutex);
    event->next = streams->events;
    streams->events = event;
    pthread_mutex_unlock(&streams->mutex);
    return event;
}

void host_event_free(struct event *event)
{
    if (!event)
        return;
    pthread_mutex_lock(&event->shared->mutex);
    struct event **link = &event->shared->events;
    while (*link != event)
        link = &(*link)->next;
    *link = event->next;
    pthread_mutex_unlock(&event->shared->mutex);
    pthread_cond_destroy(&event->changed);
    pthread_mutex_destroy(&event->mutex);
    free(event);
}

static void reach(void *args)
{
    const struct ticket *ticket = args;
    struct event *event = ticket->event;
    pthread_mutex_lock(&event->mutex);
    event->reached = ticket->number;
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->mutex);
}

static void wait_until_reached(void *args)
{
    const struct ticket *ticket = args;
    struct event *event = ticket->event;
    pthread_mutex_lock(&event->mutex);
    while (event->reached < ticket->number && !is_aborted(event->shared))
        pthread_cond_wait(&event->changed, &event->mutex);
    pthread_mutex_unlock(&event->mutex);
}

static struct ticket latest_ticket(struct event *event)
{
    pthread_mutex_lock(&event->mutex);
    struct ticket ticket = { event, event->issued };
    pthread_mutex_unlock(&event->mutex);
    return ticket;
}

void host_event_record(struct stream *stream, struct event *event)
{
    assert(!stream->taker && "a graph may not contain events");
    pthread_mutex_lock(&event->mutex);
    assert((!event->stream || event->stream == stream) && "only one stream may record an event");
    event->stream = stream;
    struct ticket ticket = { event, ++event->issued };
    pthread_mutex_unlock(&event->mutex);
    host_stream_call(stream, reach, &ticket, sizeof ticket);
}

void host_event_wait(struct stream *stream, struct event *event)
{
    struct ticket ticket = latest_ticket(event);
    assert(!stream->taker && "a graph may not contain events");
    if (ticket.number > 0)
        host_stream_call(stream, wait_until_reached, &ticket, sizeof ticket);
}

bool host_event_sync(struct event *event, struct err *err)
{
    struct ticket ticket = latest_ticket(event);
    wait_until_reached(&ticket);
    return !is_aborted(event->shared) || fail_aborted("", err);
}
