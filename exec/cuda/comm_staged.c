/* Ranks on GPUs, by way of the host: a call's input is copied to the host, the host's communicator
 * runs the call, and the output is copied back. It is slow and sums in the host communicator's
 * order. It serves as the reference for NCCL and for ranks that share a GPU.
 *
 * Every stream has a host thread. Stream and thread synchronise by counters in shared memory. Host
 * functions on the stream are not used: the driver runs only one at a time, so ranks in one process
 * would wait for each other. */
#include "exec/cuda/comms_cuda.h"

#include "base/arena.h"
#include "exec/cuda/device_cuda.h"
#include "exec/cuda/host_comm_cuda.h"

#include <cuda.h>
#include <stdlib.h>
#include <time.h>

/* Numbers of the latest call whose input has arrived and of the latest finished call. */
struct progress {
    _Atomic uint32_t arrived, done;
};

/* A pinned buffer; `smaller` links to the buffers that it replaced. */
struct buffer {
    struct buffer *smaller;
    void *memory;
    size_t bytes;
};

/* The communicator's data for one stream. */
struct lane {
    struct lane *next;
    struct stream *stream;     /* the GPU's stream */
    struct stream *thread;     /* the host's stream, which runs the calls */
    struct progress *progress; /* in pinned memory */
    uint32_t issued;
    struct buffer *in, *out; /* NULL: not needed yet */
    struct comm *comm;
};

struct comm {
    struct host_comm host;
    pthread_mutex_t mutex; /* guards the list of lanes */
    struct lane *lanes;
    atomic_bool is_over;
};

struct staged_group {
    struct group base;
    struct group *host;
};

/* --- lanes -------------------------------------------------------------------------------- */

static struct lane *new_lane(struct comm *comm, struct stream *stream, struct err *err)
{
    struct lane *lane = arena_grow(NULL, sizeof *lane);
    void *progress = NULL;
    *lane = (struct lane){ .comm = comm, .stream = stream };
    lane->thread = device_host.stream_new(comm->host.device, stream->name, err);
    if (!device_check(stream->device,
                      cudaHostAlloc(&progress, sizeof *lane->progress, cudaHostAllocMapped),
                      "cudaHostAlloc") ||
        !lane->thread) {
        device_host.stream_free(lane->thread);
        free(lane);
        return NULL;
    }
    lane->progress = progress;
    atomic_init(&lane->progress->arrived, 0);
    atomic_init(&lane->progress->done, 0);
    return lane;
}

static struct lane *lane_of(struct comm *comm, struct stream *stream)
{
    struct err unheard = { 0 };
    pthread_mutex_lock(&comm->mutex);
    struct lane *lane = comm->lanes;
    while (lane && lane->stream != stream)
        lane = lane->next;
    if (!lane && (lane = new_lane(comm, stream, &unheard))) {
        lane->next = comm->lanes;
        comm->lanes = lane;
    }
    pthread_mutex_unlock(&comm->mutex);
    return lane;
}

static void free_buffers(struct buffer *buffer)
{
    while (buffer) {
        struct buffer *smaller = buffer->smaller;
        cudaFreeHost(buffer->memory);
        free(buffer);
        buffer = smaller;
    }
}

static void free_lane(struct lane *lane)
{
    device_host.stream_free(lane->thread);
    free_buffers(lane->in);
    free_buffers(lane->out);
    cudaFreeHost(lane->progress);
    free(lane);
}

/* Makes a buffer large enough. The calls of one stream share it. Outgrown buffers are freed only at
 * the end: calls in flight may use them, and freeing pinned memory may wait for the whole GPU. */
static bool make_room(struct lane *lane, struct buffer **buffer, size_t bytes)
{
    size_t room = *buffer ? (*buffer)->bytes : 0;
    void *memory = NULL;
    if (bytes <= room)
        return true;
    room = bytes > 2 * room ? bytes : 2 * room;
    if (!device_check(lane->stream->device, cudaHostAlloc(&memory, room, cudaHostAllocDefault),
                      "cudaHostAlloc"))
        return false;
    struct buffer *larger = arena_grow(NULL, sizeof *larger);
    *larger = (struct buffer){ *buffer, memory, room };
    *buffer = larger;
    return true;
}

/* --- calls -------------------------------------------------------------------------------- */

static size_t read_bytes(const struct comm_call *call)
{
    size_t bytes = call->count * element_bytes(call->element);
    size_t size = (size_t)call->group->size;
    bool is_root = call->group->index == call->peer;
    switch (call->kind) {
    case COMM_ALL_REDUCE:
    case COMM_ALL_GATHER:
    case COMM_SEND:
    case COMM_SEND_RECV:
    case COMM_NEIGHBOURS:
        return bytes;
    case COMM_REDUCE_SCATTER:
    case COMM_ALL_TO_ALL:
        return size * bytes;
    case COMM_BROADCAST:
        return is_root ? bytes : 0;
    case COMM_RECV:
    case COMM_BARRIER:
        break;
    }
    return 0;
}

static size_t written_bytes(const struct comm_call *call)
{
    size_t bytes = call->count * element_bytes(call->element);
    size_t size = (size_t)call->group->size;
    switch (call->kind) {
    case COMM_ALL_REDUCE:
    case COMM_REDUCE_SCATTER:
    case COMM_BROADCAST:
    case COMM_RECV:
    case COMM_SEND_RECV:
        return bytes;
    case COMM_ALL_GATHER:
    case COMM_ALL_TO_ALL:
        return size * bytes;
    case COMM_NEIGHBOURS:
        return (size_t)call->num_neighbours * bytes;
    case COMM_SEND:
    case COMM_BARRIER:
        break;
    }
    return 0;
}

struct turn {
    struct lane *lane;
    uint32_t number;
};

static void await_input(void *args)
{
    const struct turn *turn = args;
    const struct progress *progress = turn->lane->progress;
    while (atomic_load(&progress->arrived) != turn->number &&
           !atomic_load(&turn->lane->comm->is_over))
        nanosleep(&(struct timespec){ .tv_nsec = 10000 }, NULL);
}

static void tell_done(void *args)
{
    const struct turn *turn = args;
    atomic_store(&turn->lane->progress->done, turn->number);
}

static void *memory_of(const struct buffer *buffer)
{
    return buffer ? buffer->memory : NULL;
}

/* Queues the call on the lane's host thread, where it touches only host memory. */
static void issue_on_host(const struct lane *lane, const struct comm_call *call,
                          const struct turn *turn)
{
    struct comm_call own = *call;
    own.group = ((const struct staged_group *)call->group)->host;
    own.stream = lane->thread;
    own.in = memory_of(lane->in);
    own.out = memory_of(lane->out);
    device_host.call(lane->thread, await_input, turn, sizeof *turn);
    lane->comm->host.api->issue(&own);
    device_host.call(lane->thread, tell_done, turn, sizeof *turn);
}

static void issue_on_lane(struct lane *lane, const struct comm_call *call)
{
    struct turn turn = { lane, ++lane->issued };
    cuda_stream_copy(lane->stream, memory_of(lane->in), call->in, read_bytes(call));
    cuda_stream_post(lane->stream, &lane->progress->arrived, turn.number);
    issue_on_host(lane, call, &turn);
    cuda_stream_await(lane->stream, &lane->progress->done, turn.number);
    cuda_stream_copy(lane->stream, call->out, memory_of(lane->out), written_bytes(call));
}

static void staged_issue(const struct comm_call *call)
{
    struct comm *comm = call->group->comm;
    struct lane *lane = lane_of(comm, call->stream);
    if (lane && !atomic_load(&comm->is_over) && !device_is_over(call->stream->device) &&
        make_room(lane, &lane->in, read_bytes(call)) &&
        make_room(lane, &lane->out, written_bytes(call)))
        issue_on_lane(lane, call);
}

static double staged_sent_bytes(const struct group *base)
{
    return base->comm->host.api->sent_bytes(((const struct staged_group *)base)->host);
}

/* --- opening and closing ------------------------------------------------------------------ */

static void staged_close(struct comm *comm)
{
    if (!comm)
        return;
    while (comm->lanes) {
        struct lane *lane = comm->lanes;
        comm->lanes = lane->next;
        free_lane(lane);
    }
    host_comm_close(&comm->host);
    pthread_mutex_destroy(&comm->mutex);
    free(comm);
}

static struct comm *staged_open(const struct comm_options *options, struct err *err)
{
    struct comm *comm = arena_grow(NULL, sizeof *comm);
    *comm = (struct comm){ 0 };
    pthread_mutex_init(&comm->mutex, NULL);
    if (host_comm_open(options, &comm->host, err))
        return comm;
    staged_close(comm);
    return NULL;
}

static struct group *staged_group_new(struct comm *comm, const int *ranks, int num_ranks,
                                      struct err *err)
{
    struct group *host = comm->host.api->group_new(comm->host.comm, ranks, num_ranks, err);
    if (!host)
        return NULL;
    struct staged_group *group = arena_grow(NULL, sizeof *group);
    *group = (struct staged_group){ .base = *host, .host = host };
    group->base.comm = comm;
    return &group->base;
}

/* Waits until the host threads have finished their calls. After an abort the GPU's streams do not
 * wait for them any more. */
static void finish_lanes(struct comm *comm)
{
    struct err unheard = { 0 };
    pthread_mutex_lock(&comm->mutex);
    for (struct lane *lane = comm->lanes; lane; lane = lane->next)
        device_host.stream_sync(lane->thread, &unheard);
    pthread_mutex_unlock(&comm->mutex);
}

static void staged_group_free(struct group *base)
{
    if (!base)
        return;
    struct staged_group *group = (struct staged_group *)base;
    finish_lanes(base->comm);
    base->comm->host.api->group_free(group->host);
    free(group);
}

static bool staged_poll(struct comm *comm, struct err *err)
{
    return comm->host.api->poll(comm->host.comm, err);
}

/* Releases streams that wait for the host; the buffers' contents are then undefined. */
static void staged_abort(struct comm *comm)
{
    atomic_store(&comm->is_over, true);
    comm->host.api->abort(comm->host.comm);
    pthread_mutex_lock(&comm->mutex);
    for (struct lane *lane = comm->lanes; lane; lane = lane->next)
        atomic_store(&lane->progress->done, lane->issued);
    pthread_mutex_unlock(&comm->mutex);
}

const struct comm_api comm_staged = {
    .name = "staged",
    .device = "cuda",
    .open = staged_open,
    .close = staged_close,
    .group_new = staged_group_new,
    .group_free = staged_group_free,
    .issue = staged_issue,
    .sent_bytes = staged_sent_bytes,
    .poll = staged_poll,
    .abort = staged_abort,
};
