/* GPUs and their memory, and the calls that a stream makes. */
#include "tests/cuda_on_host/hollow.h"
#include "tests/cuda_on_host/runtime.h"

#include <cuda.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* --- memory ------------------------------------------------------------------------------- */

bool runtime_memory_is_full;

static cudaError_t take(void **memory, size_t bytes)
{
    enum { ALIGNMENT = 256 };
    if (runtime_memory_is_full)
        return cudaErrorMemoryAllocation;
    *memory = hollow_is_on()
                  ? hollow_alloc(bytes)
                  : aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

static void give_back(void *memory)
{
    if (hollow_is_on())
        hollow_free(memory);
    else
        free(memory);
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    runtime_wait_for_device();
    return take(memory, bytes);
}

cudaError_t cudaFree(void *memory)
{
    runtime_wait_for_device();
    give_back(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    return take(memory, bytes);
}

static void free_memory(void *args)
{
    give_back(*(void **)args);
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
    return runtime_issue(stream, free_memory, &memory, sizeof memory);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return take(memory, bytes);
}

cudaError_t cudaFreeHost(void *memory)
{
    return cudaFree(memory);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes)
{
    *free_bytes = *all_bytes = (size_t)8 << 30;
    return cudaSuccess;
}

struct memory_work {
    void *to;
    const void *from;
    int byte;
    size_t bytes;
};

static void set_bytes(void *args)
{
    const struct memory_work *work = args;
    if (!hollow_copy(work->bytes))
        memset(work->to, work->byte, work->bytes);
}

static void copy_bytes(void *args)
{
    const struct memory_work *work = args;
    if (!hollow_copy(work->bytes))
        memcpy(work->to, work->from, work->bytes);
}

cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
    struct memory_work work = { .to = memory, .byte = byte, .bytes = bytes };
    return runtime_issue(stream, set_bytes, &work, sizeof work);
}

cudaError_t cudaMemset(void *memory, int byte, size_t bytes)
{
    return cudaMemsetAsync(memory, byte, bytes, NULL);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    struct memory_work work = { .to = to, .from = from, .bytes = bytes };
    return kind == cudaMemcpyDefault ? runtime_issue(stream, copy_bytes, &work, sizeof work)
                                     : cudaErrorInvalidValue;
}

/* --- calls of the host, and the driver's of its memory -------------------------------------- */

struct host_work {
    cudaHostFn_t function;
    void *args;
};

static void call_host(void *args)
{
    const struct host_work *work = args;
    work->function(work->args);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *args)
{
    struct host_work work = { function, args };
    return runtime_issue(stream, call_host, &work, sizeof work);
}

struct value_work {
    _Atomic uint32_t *at;
    uint32_t value;
};

static void await_value(void *args)
{
    const struct value_work *work = args;
    while ((int32_t)(atomic_load(work->at) - work->value) < 0)
        sched_yield();
}

static void write_value(void *args)
{
    const struct value_work *work = args;
    atomic_store(work->at, work->value);
}

static CUresult issue_value(CUstream stream, void (*function)(void *), CUdeviceptr at,
                            uint32_t value)
{
    struct value_work work = { (_Atomic uint32_t *)(uintptr_t)at, value };
    return runtime_issue(stream, function, &work, sizeof work) == cudaSuccess
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult stream_wait_value(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
    return flags == CU_STREAM_WAIT_VALUE_GEQ ? issue_value(stream, await_value, at, value)
                                             : CUDA_ERROR_INVALID_VALUE;
}

static CUresult stream_write_value(CUstream stream, CUdeviceptr at, cuuint32_t value,
                                   unsigned flags)
{
    return flags == CU_STREAM_WRITE_VALUE_DEFAULT ? issue_value(stream, write_value, at, value)
                                                  : CUDA_ERROR_INVALID_VALUE;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found)
{
    (void)version, (void)flags;
    CUresult (*known)(CUstream, CUdeviceptr, cuuint32_t, unsigned) =
        strcmp(name, "cuStreamWaitValue32") == 0    ? stream_wait_value
        : strcmp(name, "cuStreamWriteValue32") == 0 ? stream_write_value
                                                    : NULL;
    memcpy(function, &known, sizeof known); /* as dlsym(3) has it */
    *found = cudaDriverEntryPointSuccess;
    return known ? cudaSuccess : cudaErrorInvalidValue;
}

/* --- GPUs --------------------------------------------------------------------------------- */

enum { NUM_GPUS = 8 };

static __thread int current;

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = NUM_GPUS;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    current = device;
    return device >= 0 && device < NUM_GPUS ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)device;
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
        *value = 132; /* of an H100 or an H200 */
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        break;
    }
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "an error";
}
