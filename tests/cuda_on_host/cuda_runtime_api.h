/* tests/cuda_on_host/cuda_runtime_api.h - replaces the toolkit's header for the part of CUDA's
 * runtime that kernels/cuda and exec/cuda need. Memory is the host's, streams are host threads
 * (runtime.c), and this machine acts as several GPUs. */
#ifndef TESTS_CUDA_ON_HOST_CUDA_RUNTIME_API_H
#define TESTS_CUDA_ON_HOST_CUDA_RUNTIME_API_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDART_VERSION 13000

typedef enum {
    cudaSuccess,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorUnknown = 999,
} cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
};
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess };
enum { cudaStreamNonBlocking = 1, cudaHostAllocDefault = 0, cudaHostAllocMapped = 2 };
enum { cudaEnableDefault = 0, cudaEventDisableTiming = 2 };

cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device); /* GPU of the calling thread */
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
/* cuStreamWaitValue32 and cuStreamWriteValue32 (cuda.h), which GPUs refuse with
 * SIMSEARCH_REFUSED_WORDS=1, and cuMemsetD32Async. */
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found);

/* cudaMalloc, cudaFree and cudaFreeHost wait for all streams of the GPU, as the real ones may. */
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags);
cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes);
cudaError_t cudaMemset(void *memory, int byte, size_t bytes);
cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream);

#define CUDART_CB
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *), void *context);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream); /* frees the stream once its work has run */
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status);

/* A capture records copies, fills, kernels and products. Events and waits on a captured stream are
 * rejected.
 */
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t
cudaGraphExecDestroy(cudaGraphExec_t graph); /* frees the graph once its launches have run */

/* Event times are the machine's clock plus the time that runtime_add_ms added on the stream. */
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);

#ifdef __cplusplus
}
#endif

#endif
