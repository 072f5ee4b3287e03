/* Graphs by the runtime's stream capture. */
#include "exec/cuda/device_cuda.h"

#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>

struct graph {
    struct device *device;
    cudaGraphExec_t cuda;
    long count; /* number of calls issued to the stream */
};

/* Captures in thread-local mode, so that calls of other threads, such as NCCL's, do not disturb the
 * capture. */
void cuda_capture_begin(struct stream *stream)
{
    struct device *device = stream->device;
    assert(stream->target == TO_STREAM && "one graph at a time");
    if (!device_is_over(device) && device_use(device))
        device_check(device, cudaStreamBeginCapture(stream->cuda, cudaStreamCaptureModeThreadLocal),
                     "cudaStreamBeginCapture");
    stream->target = TO_CAPTURE;
    stream->num_issued = 0;
}

/* The executable graph; NULL on failure. */
static cudaGraphExec_t instantiate(struct device *device, cudaGraph_t captured)
{
    cudaGraphExec_t graph = NULL;
    bool ok = device_check(device, cudaGraphInstantiate(&graph, captured, 0),
                           "a pass cannot become a CUDA graph (--graphs off runs without graphs)");
    cudaGraphDestroy(captured);
    return ok ? graph : NULL;
}

/* Ends the capture, even after a failure, so that the stream can be used again. */
struct graph *cuda_capture_end(struct stream *stream)
{
    struct device *device = stream->device;
    cudaGraph_t captured = NULL;
    stream->target = TO_STREAM;
    cudaError_t status = cudaStreamEndCapture(stream->cuda, &captured);
    if (device_is_over(device) ||
        !device_check(device, status,
                      "a pass cannot be captured (--graphs off runs without graphs)")) {
        if (captured)
            cudaGraphDestroy(captured);
        return NULL;
    }
    cudaGraphExec_t cuda = instantiate(device, captured);
    if (!cuda)
        return NULL;
    struct graph *graph = arena_grow(NULL, sizeof *graph);
    *graph = (struct graph){ device, cuda, stream->num_issued };
    return graph;
}

void cuda_graph_launch(struct stream *stream, struct graph *graph)
{
    if (stream_takes(stream))
        device_check(stream->device, cudaGraphLaunch(graph->cuda, stream->cuda), "cudaGraphLaunch");
}

void cuda_graph_free(struct graph *graph)
{
    if (!graph)
        return;
    if (device_use(graph->device))
        cudaGraphExecDestroy(graph->cuda);
    free(graph);
}

void cuda_graph_verify_begin(struct stream *stream, struct graph *graph)
{
    stream->target = TO_VERIFICATION;
    stream->num_issued = 0;
    stream->verified = graph;
}

bool cuda_graph_verify_end(struct stream *stream)
{
    stream->target = TO_STREAM;
    return stream->num_issued == stream->verified->count;
}
