/* GPUs and their memory, and the calls that a stream makes. */
#include "tests/cuda_on_host/hollow.h"
#include "tests/cuda_on_host/runtime.h"

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static __thread int current; /* index of the thread's current GPU */

/* --- memory ------------------------------------------------------------------------------- */

enum { OF_HOST = -1 };

struct block {
    char *memory;
    size_t bytes;
    int gpu; /* GPU of the memory; OF_HOST: pinned memory */
    struct block *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct block *blocks;

bool runtime_memory_is_full;
size_t runtime_most_bytes;

static void *new_memory(size_t bytes)
{
    enum { ALIGNMENT = 256 };
    if (runtime_memory_is_full || (runtime_most_bytes > 0 && bytes > runtime_most_bytes))
        return NULL;
    return hollow_is_on()
               ? hollow_alloc(bytes)
               : aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

static size_t gpu_bytes(void)
{
    return (size_t)(hollow_is_on() ? 140 : 2) << 30;
}

static size_t used_bytes(int gpu)
{
    size_t bytes = 0;
    pthread_mutex_lock(&mutex);
    for (const struct block *block = blocks; block; block = block->next)
        bytes += block->gpu == gpu ? block->bytes : 0;
    pthread_mutex_unlock(&mutex);
    return bytes;
}

static cudaError_t take(void **memory, size_t bytes, int gpu)
{
    struct block *block = (*memory = new_memory(bytes)) ? malloc(sizeof *block) : NULL;
    if (!block)
        return cudaErrorMemoryAllocation;
    pthread_mutex_lock(&mutex);
    *block = (struct block){ *memory, bytes, gpu, blocks };
    blocks = block;
    pthread_mutex_unlock(&mutex);
    return cudaSuccess;
}

/* Removes a block from the list; NULL: the memory is not in it. */
static struct block *leave_list(const void *memory)
{
    pthread_mutex_lock(&mutex);
    struct block **link = &blocks;
    while (*link && (*link)->memory != memory)
        link = &(*link)->next;
    struct block *block = *link;
    if (block)
        *link = block->next;
    pthread_mutex_unlock(&mutex);
    return block;
}

static void free_block(struct block *block)
{
    if (hollow_is_on())
        hollow_free(block->memory);
    else
        free(block->memory);
    free(block);
}

static cudaError_t take_of_gpu(void **memory, size_t bytes)
{
    return bytes > gpu_bytes() - used_bytes(current) ? cudaErrorMemoryAllocation
                                                     : take(memory, bytes, current);
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    runtime_wait_for_device();
    return take_of_gpu(memory, bytes);
}

cudaError_t cudaFree(void *memory)
{
    if (!memory)
        return cudaSuccess;
    runtime_wait_for_device();
    struct block *block = leave_list(memory);
    if (!block)
        return cudaErrorInvalidValue;
    free_block(block);
    return cudaSuccess;
}

cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    return take_of_gpu(memory, bytes);
}

static void free_here(void *args)
{
    free_block(*(struct block **)args);
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
    struct block *block = leave_list(memory);
    return block ? runtime_issue(stream, free_here, &block, sizeof block) : cudaErrorInvalidValue;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return take(memory, bytes, OF_HOST);
}

cudaError_t cudaFreeHost(void *memory)
{
    return cudaFree(memory);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes)
{
    *all_bytes = gpu_bytes();
    *free_bytes = *all_bytes - used_bytes(current);
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

/* --- words that streams write and wait for, in the driver's interface ---------------------- */

struct value_work {
    _Atomic uint32_t *at;
    uint32_t value;
};

static void await_value(void *args)
{
    const struct value_work *work = args;
    while ((int32_t)(atomic_load(work->at) - work->value) < 0)
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

static void write_value(void *args)
{
    const struct value_work *work = args;
    atomic_store(work->at, work->value);
}

static void fill_word(void *args)
{
    write_value(args);
}

/* Whether `at` lies in memory that was allocated for the GPU or pinned for it. */
static bool is_known(const char *at)
{
    pthread_mutex_lock(&mutex);
    const struct block *block = blocks;
    while (block && !(at >= block->memory && at < block->memory + block->bytes))
        block = block->next;
    pthread_mutex_unlock(&mutex);
    return block != NULL;
}

static CUresult issue_value(CUstream stream, void (*function)(void *), CUdeviceptr at,
                            uint32_t value)
{
    struct value_work work = { (_Atomic uint32_t *)(uintptr_t)at, value };
    const char *refused = getenv("SIMSEARCH_REFUSED_WORDS");
    if (refused && strcmp(refused, "1") == 0 && function != fill_word)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!is_known((const char *)(uintptr_t)at))
        return CUDA_ERROR_INVALID_VALUE;
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

static CUresult fill_words(CUdeviceptr at, unsigned value, size_t count, CUstream stream)
{
    return count == 1 ? issue_value(stream, fill_word, at, value) : CUDA_ERROR_INVALID_VALUE;
}

struct host_work {
    void (*function)(void *context);
    void *context;
};

static void run_host_work(void *args)
{
    const struct host_work *work = args;
    work->function(work->context);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *), void *context)
{
    return runtime_issue(stream, run_host_work, &(struct host_work){ function, context },
                         sizeof(struct host_work));
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found)
{
    (void)version, (void)flags;
    CUresult (*value)(CUstream, CUdeviceptr, cuuint32_t, unsigned) =
        strcmp(name, "cuStreamWaitValue32") == 0    ? stream_wait_value
        : strcmp(name, "cuStreamWriteValue32") == 0 ? stream_write_value
                                                    : NULL;
    CUresult (*fill)(CUdeviceptr, unsigned, size_t, CUstream) = fill_words;
    *found = cudaDriverEntryPointSuccess;
    if (strcmp(name, "cuMemsetD32Async") == 0)
        memcpy(function, &fill, sizeof fill); /* as in dlsym(3) */
    else
        memcpy(function, &value, sizeof value);
    return *function ? cudaSuccess : cudaErrorInvalidValue;
}

/* --- GPUs --------------------------------------------------------------------------------- */

enum { NUM_GPUS = 8 };

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
        *value = 132; /* as on an H100 or H200 */
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
