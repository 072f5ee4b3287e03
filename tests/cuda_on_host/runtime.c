#include "tests/cuda_on_host/runtime.h"

#include "tests/cuda_on_host/grid.h"
#include "tests/cuda_on_host/hollow.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct work {
    struct work *next;
    void (*function)(void *args);
    size_t size; /* size of the arguments in bytes */
    max_align_t args[];
};

struct CUgraph_st {
    struct work *first, **last;
};

struct CUstream_st {
    struct CUstream_st *next;
    int device;
    pthread_t thread;
    pthread_cond_t has_more;
    struct work *first, **last;
    long num_issued, num_done;
    bool is_ending;
    struct CUgraph_st *captured; /* graph that records issued work; NULL: the stream's thread
                                  * runs it */
};

/* Records of an event are numbered. Work on a stream keeps the event alive until the work has run.
 */
struct CUevent_st {
    long num_issued, num_reached;
    bool has_time;
    double ms;
    int num_holders;
};

static cudaStream_t streams;
/* Guards all streams and events, which are few. The condition is signalled when a stream is empty
 * or an event is reached. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* --- streams ------------------------------------------------------------------------------ */

static __thread double added_ms; /* added time of the calling thread's stream */

void runtime_add_ms(double ms)
{
    added_ms += ms;
}

static double now_ms(void)
{
    return 1e3 * hollow_now_s() + added_ms;
}

/* Returns the next work of a stream, or NULL when the stream ends and has no work left. */
static struct work *take_work(cudaStream_t stream)
{
    pthread_mutex_lock(&mutex);
    while (!stream->first && !stream->is_ending)
        pthread_cond_wait(&stream->has_more, &mutex);
    struct work *work = stream->first;
    if (work && !(stream->first = work->next))
        stream->last = &stream->first;
    pthread_mutex_unlock(&mutex);
    return work;
}

static void *run_stream(void *context)
{
    cudaStream_t stream = context;
    for (struct work *work = take_work(stream); work; work = take_work(stream)) {
        work->function(work->args);
        free(work);
        pthread_mutex_lock(&mutex);
        bool is_last = !stream->first;
        pthread_mutex_unlock(&mutex);
        if (is_last)
            hollow_rest();
        pthread_mutex_lock(&mutex);
        if (++stream->num_done == stream->num_issued)
            pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    grid_release();
    return NULL;
}

static void append(cudaStream_t stream, struct work *work)
{
    pthread_mutex_lock(&mutex);
    *stream->last = work;
    stream->last = &work->next;
    stream->num_issued++;
    pthread_cond_signal(&stream->has_more);
    pthread_mutex_unlock(&mutex);
}

cudaError_t runtime_issue(cudaStream_t stream, void (*function)(void *args), const void *args,
                          size_t size)
{
    struct work *work = malloc(sizeof *work + size);
    if (!work)
        return cudaErrorMemoryAllocation;
    work->next = NULL;
    work->function = function;
    work->size = size;
    memcpy(work->args, args, size);
    if (stream && stream->captured) {
        *stream->captured->last = work;
        stream->captured->last = &work->next;
        return cudaSuccess;
    }
    if (stream) {
        append(stream, work);
        return cudaSuccess;
    }
    function(work->args);
    free(work);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    (void)flags;
    cudaStream_t stream = calloc(1, sizeof *stream);
    if (!stream)
        return cudaErrorMemoryAllocation;
    stream->last = &stream->first;
    pthread_cond_init(&stream->has_more, NULL);
    cudaGetDevice(&stream->device);
    pthread_mutex_lock(&mutex);
    stream->next = streams;
    streams = stream;
    pthread_mutex_unlock(&mutex);
    *out = stream;
    return pthread_create(&stream->thread, NULL, run_stream, stream) == 0 ? cudaSuccess
                                                                          : cudaErrorUnknown;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    pthread_mutex_lock(&mutex);
    stream->is_ending = true;
    pthread_cond_signal(&stream->has_more);
    pthread_mutex_unlock(&mutex);
    pthread_join(stream->thread, NULL);
    pthread_mutex_lock(&mutex);
    cudaStream_t *link = &streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&stream->has_more);
    free(stream);
    return cudaSuccess;
}

static bool is_busy(int device)
{
    for (cudaStream_t stream = streams; stream; stream = stream->next)
        if (stream->device == device && stream->num_done < stream->num_issued)
            return true;
    return false;
}

void runtime_wait_for_device(void)
{
    int device;
    cudaGetDevice(&device);
    pthread_mutex_lock(&mutex);
    while (is_busy(device))
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

static bool is_new(uint64_t kernel)
{
    enum { MOST_KERNELS = 4096 };
    static uint64_t loaded[MOST_KERNELS];
    static int num_loaded;
    int i = 0;
    pthread_mutex_lock(&mutex);
    while (i < num_loaded && loaded[i] != kernel)
        i++;
    bool is_first = i == num_loaded && i < MOST_KERNELS;
    if (is_first)
        loaded[num_loaded++] = kernel;
    pthread_mutex_unlock(&mutex);
    return is_first;
}

void runtime_load(uint64_t kernel)
{
    if (is_new(kernel))
        runtime_wait_for_device();
}

/* Callers poll in a loop, on a core that the work could use. So the answer "not yet" is given only
 * after something has changed or a millisecond has passed. */
static void wait_for_change(void)
{
    enum { WAIT_NS = 1000000, SECOND_NS = 1000000000 };
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += WAIT_NS;
    until.tv_sec += until.tv_nsec / SECOND_NS;
    until.tv_nsec %= SECOND_NS;
    pthread_cond_timedwait(&changed, &mutex, &until);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    if (!stream)
        return cudaSuccess;
    pthread_mutex_lock(&mutex);
    if (stream->num_done != stream->num_issued)
        wait_for_change();
    bool is_done = stream->num_done == stream->num_issued;
    pthread_mutex_unlock(&mutex);
    return is_done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (!stream)
        return cudaSuccess;
    pthread_mutex_lock(&mutex);
    for (long issued = stream->num_issued; stream->num_done < issued;)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    return cudaSuccess;
}

/* --- graphs ------------------------------------------------------------------------------- */

static __thread int num_captured;

bool runtime_captures(void)
{
    return num_captured > 0;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    bool is_captured = stream && stream->captured;
    *status = is_captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    if (mode != cudaStreamCaptureModeThreadLocal || stream->captured)
        return cudaErrorInvalidValue;
    stream->captured = malloc(sizeof *stream->captured);
    if (!stream->captured)
        return cudaErrorMemoryAllocation;
    stream->captured->first = NULL;
    stream->captured->last = &stream->captured->first;
    num_captured++;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    *graph = stream->captured;
    stream->captured = NULL;
    num_captured--;
    return *graph ? cudaSuccess : cudaErrorInvalidValue;
}

static void free_works(struct work *first)
{
    for (struct work *work = first, *next; work; work = next) {
        next = work->next;
        free(work);
    }
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    free_works(graph->first);
    free(graph);
    return cudaSuccess;
}

struct CUgraphExec_st {
    struct work *first;
};

/* Copies the graph's work, so that the graph may be freed. */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    *out = calloc(1, sizeof **out);
    struct work **last = *out ? &(*out)->first : NULL;
    for (const struct work *work = graph->first; work && last; work = work->next) {
        *last = malloc(sizeof *work + work->size);
        if (!*last)
            return cudaErrorMemoryAllocation;
        memcpy(*last, work, sizeof *work + work->size);
        (*last)->next = NULL;
        last = &(*last)->next;
    }
    return last ? cudaSuccess : cudaErrorMemoryAllocation;
}

struct graph_work {
    cudaGraphExec_t graph;
};

/* Runs each function on a copy of its arguments, as functions may change them. */
static void run_graph(void *args)
{
    for (const struct work *work = ((struct graph_work *)args)->graph->first; work;
         work = work->next) {
        void *copy = malloc(work->size + 1);
        if (!copy)
            abort();
        memcpy(copy, work->args, work->size);
        work->function(copy);
        free(copy);
    }
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    struct graph_work work = { graph };
    return runtime_issue(stream, run_graph, &work, sizeof work);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    free_works(graph->first);
    free(graph);
    return cudaSuccess;
}

/* --- events ------------------------------------------------------------------------------- */

struct event_work {
    cudaEvent_t event;
    long number;
};

static void hold(cudaEvent_t event)
{
    event->num_holders++;
}

static void let_go(cudaEvent_t event)
{
    if (--event->num_holders == 0)
        free(event);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = calloc(1, sizeof **event);
    if (!*event)
        return cudaErrorMemoryAllocation;
    (*event)->has_time = !(flags & cudaEventDisableTiming);
    hold(*event);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    pthread_mutex_lock(&mutex);
    let_go(event);
    pthread_mutex_unlock(&mutex);
    return cudaSuccess;
}

static void reach(void *args)
{
    const struct event_work *work = args;
    pthread_mutex_lock(&mutex);
    work->event->num_reached = work->number;
    work->event->ms = now_ms();
    let_go(work->event);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void wait_for(void *args)
{
    const struct event_work *work = args;
    pthread_mutex_lock(&mutex);
    while (work->event->num_reached < work->number)
        pthread_cond_wait(&changed, &mutex);
    let_go(work->event);
    pthread_mutex_unlock(&mutex);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (stream && stream->captured)
        return cudaErrorStreamCaptureUnsupported;
    pthread_mutex_lock(&mutex);
    hold(event);
    struct event_work work = { event, ++event->num_issued };
    pthread_mutex_unlock(&mutex);
    return runtime_issue(stream, reach, &work, sizeof work);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    if (stream && stream->captured)
        return cudaErrorStreamCaptureUnsupported;
    pthread_mutex_lock(&mutex);
    hold(event);
    struct event_work work = { event, event->num_issued };
    pthread_mutex_unlock(&mutex);
    return runtime_issue(stream, wait_for, &work, sizeof work);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    pthread_mutex_lock(&mutex);
    if (event->num_reached != event->num_issued)
        wait_for_change();
    bool is_reached = event->num_reached == event->num_issued;
    pthread_mutex_unlock(&mutex);
    return is_reached ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return cudaStreamWaitEvent(NULL, event, 0);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    if (!from->has_time || !to->has_time)
        return cudaErrorInvalidResourceHandle;
    if (cudaEventQuery(from) != cudaSuccess || cudaEventQuery(to) != cudaSuccess)
        return cudaErrorNotReady;
    *ms = (float)(to->ms - from->ms);
    return cudaSuccess;
}
