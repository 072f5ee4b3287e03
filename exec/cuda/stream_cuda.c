/* Streams and events of the CUDA runtime. */
#include "exec/cuda/device_cuda.h"

#include "base/arena.h"

#include <assert.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

/* --- waiting ------------------------------------------------------------------------------ */

/* A pause of a waiting thread. For about the length of a step it only yields the core, so that the
 * end of the step is timed precisely; then it also sleeps. */
static void wait_a_little(int tries)
{
    enum { SHORT_WAIT_TRIES = 1000000 };
    if (tries < SHORT_WAIT_TRIES)
        sched_yield();
    else
        nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
}

static bool tell_end(struct device *device, struct err *err)
{
    if (!failure_check(&device->failure, err))
        return false;
    return !atomic_load(&device->is_aborted) ||
           err_set(err, ERR_SYSTEM, device->where, "the device was stopped");
}

/* Polls, as the runtime's own wait cannot be aborted. */
static bool wait_until_done(struct device *device, struct stream *stream, struct event *event,
                            struct err *err)
{
    cudaError_t status = cudaErrorNotReady;
    device_use(device);
    for (int tries = 0; status == cudaErrorNotReady && !device_is_over(device);
         tries += tries < INT_MAX) {
        status = stream ? cudaStreamQuery(stream->cuda) : cudaEventQuery(event->cuda);
        if (status == cudaErrorNotReady)
            wait_a_little(tries);
    }
    if (status != cudaErrorNotReady)
        device_check(device, status, stream ? stream->name : "an event");
    return tell_end(device, err);
}

/* --- streams ------------------------------------------------------------------------------ */

struct stream *cuda_stream_new(struct device *device, const char *name, struct err *err)
{
    struct stream *stream = arena_grow(NULL, sizeof *stream);
    *stream = (struct stream){ .device = device, .name = name };
    if (device_use(device) &&
        device_check(device, cudaStreamCreateWithFlags(&stream->cuda, cudaStreamNonBlocking), name))
        return stream;
    failure_check(&device->failure, err);
    free(stream);
    return NULL;
}

void cuda_stream_free(struct stream *stream)
{
    struct err unheard = { 0 };
    if (!stream)
        return;
    cuda_stream_sync(stream, &unheard);
    cudaStreamDestroy(stream->cuda);
    cuda_notes_tell(stream);
    free(stream);
}

bool cuda_stream_sync(struct stream *stream, struct err *err)
{
    bool ok = wait_until_done(stream->device, stream, NULL, err);
    cuda_notes_tell(stream);
    return ok;
}

bool stream_takes(struct stream *stream)
{
    stream->num_issued++;
    return stream->target != TO_VERIFICATION && !device_is_over(stream->device) &&
           device_use(stream->device);
}

bool stream_takes_outside_graphs(struct stream *stream)
{
    assert(stream->target == TO_STREAM && "a graph may contain only copies, fills and kernels");
    return stream_takes(stream);
}

void cuda_stream_copy(struct stream *stream, void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && stream_takes(stream))
        device_check(stream->device,
                     cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream->cuda),
                     "cudaMemcpyAsync");
}

void cuda_stream_fill(struct stream *stream, void *to, int byte, size_t bytes)
{
    if (bytes > 0 && stream_takes(stream))
        device_check(stream->device, cudaMemsetAsync(to, byte, bytes, stream->cuda),
                     "cudaMemsetAsync");
}

/* --- events ------------------------------------------------------------------------------- */

struct event *cuda_event_new(struct device *device, struct err *err)
{
    struct event *event = arena_grow(NULL, sizeof *event);
    *event = (struct event){ .device = device };
    if (device_use(device) &&
        device_check(device, cudaEventCreateWithFlags(&event->cuda, cudaEventDisableTiming),
                     "cudaEventCreateWithFlags"))
        return event;
    failure_check(&device->failure, err);
    free(event);
    return NULL;
}

void cuda_event_free(struct event *event)
{
    if (!event)
        return;
    cudaEventDestroy(event->cuda);
    free(event);
}

void cuda_event_record(struct stream *stream, struct event *event)
{
    if (stream_takes_outside_graphs(stream))
        device_check(stream->device, cudaEventRecord(event->cuda, stream->cuda), "cudaEventRecord");
}

void cuda_event_wait(struct stream *stream, struct event *event)
{
    if (stream_takes_outside_graphs(stream))
        device_check(stream->device, cudaStreamWaitEvent(stream->cuda, event->cuda, 0),
                     "cudaStreamWaitEvent");
}

bool cuda_event_sync(struct event *event, struct err *err)
{
    return wait_until_done(event->device, NULL, event, err);
}
