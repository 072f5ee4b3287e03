/* exec/cuda/device_cuda.h - one GPU as a device of exec/device/device.h: an arena in its memory,
 * and streams and events of the CUDA runtime. Only the sources of exec/cuda include it.
 *
 * The first failed runtime call is kept as the device's failure, which stream_sync and event_sync
 * report. The runtime's current GPU is per thread, so every function that calls the runtime first
 * calls device_use. */
#ifndef EXEC_CUDA_DEVICE_CUDA_H
#define EXEC_CUDA_DEVICE_CUDA_H

#include "exec/comm/failure.h"
#include "exec/device/device.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

extern const struct device_api device_cuda;

struct stream_note; /* a requested time measurement on a stream */

/* Type of cuStreamWriteValue32 and cuStreamWaitValue32, which write or wait for a word in pinned
 * memory. */
typedef CUresult value_call(CUstream stream, CUdeviceptr word, cuuint32_t number, unsigned flags);
/* Type of cuMemsetD32Async. */
typedef CUresult fill_call(CUdeviceptr words, unsigned number, size_t count, CUstream stream);

struct device {
    int gpu; /* the runtime's index of the GPU */
    char where[24];
    pthread_mutex_t mutex; /* guards the region and the members below */
    struct region *region;
    unsigned char *memory;
    bool poisons;
    /* NULL: the device does not take such calls. fill_words writes in place of write_value, and a
     * host function waits in place of wait_value. */
    value_call *write_value, *wait_value;
    fill_call *fill_words;
    struct stream *clock_stream; /* used only for `mark` */
    cudaEvent_t mark;            /* reached at mark_s on the machine's clock */
    double mark_s;
    long num_notes; /* requested and not yet delivered */
    struct stream_note *free_notes;
    struct failure failure;
    atomic_bool is_aborted;
};

/* Destination of the work issued on a stream. */
enum work_target {
    TO_STREAM,
    TO_CAPTURE,
    TO_VERIFICATION, /* to no destination: the work is only compared with a graph */
};

struct stream {
    struct device *device;
    const char *name;
    cudaStream_t cuda;
    struct stream_note *notes; /* newest first */
    enum work_target target;
    long num_issued; /* number of pieces of work issued since the destination changed */
    const struct graph *verified; /* the graph to compare with, in state TO_VERIFICATION */
};

struct event {
    struct device *device;
    cudaEvent_t cuda;
};

/* Returns whether `status` is success; else keeps it as the device's failure. `what` names the
 * call. */
bool device_check(struct device *device, cudaError_t status, const char *what);
bool device_check_driver(struct device *device, CUresult status, const char *what);
bool device_use(struct device *device);
/* Whether the device has failed or was aborted, so that nothing more is issued. */
bool device_is_over(const struct device *device);

/* exec/cuda/stream_cuda.c */
/* Whether a copy, fill or kernel issued now goes to the runtime. */
bool stream_takes(struct stream *stream);
/* The same as stream_takes, for work that graphs cannot hold. */
bool stream_takes_outside_graphs(struct stream *stream);
struct stream *cuda_stream_new(struct device *device, const char *name, struct err *err);
void cuda_stream_free(struct stream *stream);
bool cuda_stream_sync(struct stream *stream, struct err *err);
void cuda_stream_copy(struct stream *stream, void *to, const void *from, size_t bytes);
void cuda_stream_fill(struct stream *stream, void *to, int byte, size_t bytes);
struct event *cuda_event_new(struct device *device, struct err *err);
void cuda_event_free(struct event *event);
void cuda_event_record(struct stream *stream, struct event *event);
void cuda_event_wait(struct stream *stream, struct event *event);
bool cuda_event_sync(struct event *event, struct err *err);

/* exec/cuda/graph_cuda.c */
void cuda_capture_begin(struct stream *stream);
struct graph *cuda_capture_end(struct stream *stream);
void cuda_graph_launch(struct stream *stream, struct graph *graph);
void cuda_graph_free(struct graph *graph);
void cuda_graph_verify_begin(struct stream *stream, struct graph *graph);
bool cuda_graph_verify_end(struct stream *stream);

/* exec/cuda/post_cuda.c: numbers that streams write to the host's memory. */
/* Must be called before any post or wait. */
bool cuda_posts_open(struct device *device, struct err *err);
void cuda_stream_post(struct stream *stream, _Atomic uint32_t *word, uint32_t number);
/* Work issued later on the stream runs once the word, in pinned memory, is at least `number`. */
void cuda_stream_await(struct stream *stream, const _Atomic uint32_t *word, uint32_t number);

/* exec/cuda/note_cuda.c: times at which streams reach given places, by the GPU's own clock. */
void cuda_stream_note(struct stream *stream, double *at_s, double *own_s);
/* Delivers the requested times of a stream that has finished. */
void cuda_notes_tell(struct stream *stream);
void cuda_notes_release(struct device *device);
/* Must be called before any note. */
bool cuda_clock_open(struct device *device, struct err *err);

#endif
