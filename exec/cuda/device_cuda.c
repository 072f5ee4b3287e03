/* One GPU as a device of exec/device/device.h: finds it, allocates its memory, and keeps the first
 * failure of a CUDA call. */
#include "exec/cuda/device_cuda.h"

#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int poison = 0xff;

/* --- failures ----------------------------------------------------------------------------- */

bool device_check(struct device *device, cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return true;
    struct err err = { 0 };
    err_set(&err, ERR_SYSTEM, device->where, "%s: %s", what, cudaGetErrorString(status));
    failure_keep(&device->failure, &err);
    return false;
}

/* The driver's error numbers are the same as the runtime's. */
bool device_check_driver(struct device *device, CUresult status, const char *what)
{
    return device_check(device, (cudaError_t)status, what);
}

bool device_use(struct device *device)
{
    return device_check(device, cudaSetDevice(device->gpu), "cudaSetDevice");
}

bool device_is_over(const struct device *device)
{
    return atomic_load(&device->is_aborted) || failure_is_kept(&device->failure);
}

/* --- choosing the GPU --------------------------------------------------------------------- */

enum { LEAST_MAJOR = 8 }; /* kernels/cuda is compiled for compute capability 8.0 and newer */

/* Checked first: without a driver every call fails with a misleading message about versions. */
static bool has_driver(struct err *err)
{
    int version = 0;
    cudaError_t status = cudaDriverGetVersion(&version);
    if (status != cudaSuccess || version == 0)
        return err_set(err, ERR_UNAVAILABLE, "cuda",
                       "this machine has no NVIDIA driver, so no GPU can be used");
    if (version < CUDART_VERSION / 1000 * 1000)
        return err_set(
            err, ERR_UNAVAILABLE, "cuda",
            "the NVIDIA driver supports CUDA %d.%d, but this program was built with CUDA %d.%d",
            version / 1000, version % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    return true;
}

static bool choose_gpu(int local_rank, int *gpu, struct err *err)
{
    int count = 0;
    if (!has_driver(err))
        return false;
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0)
        return err_set(err, ERR_UNAVAILABLE, "cuda", "the NVIDIA driver finds no GPU: %s",
                       cudaGetErrorString(status));
    const char *shares = getenv("SIMSEARCH_SHARE_GPUS");
    bool may_share = shares && strcmp(shares, "1") == 0;
    if (local_rank >= count && !may_share)
        return err_set(err, ERR_UNAVAILABLE, "cuda",
                       "rank %d of this machine (counted from 0) needs its own GPU, but there are "
                       "%d. For tests, SIMSEARCH_SHARE_GPUS=1 lets ranks share a GPU",
                       local_rank, count);
    *gpu = local_rank % count;
    return true;
}

static bool is_new_enough(int gpu, struct err *err)
{
    int major = 0, minor = 0;
    cudaError_t status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu);
    if (status != cudaSuccess)
        return err_set(err, ERR_UNAVAILABLE, "cuda", "GPU %d does not answer: %s", gpu,
                       cudaGetErrorString(status));
    return major >= LEAST_MAJOR ||
           err_set(err, ERR_UNAVAILABLE, "cuda",
                   "GPU %d has compute capability %d.%d, but the kernels need at least %d.0", gpu,
                   major, minor, LEAST_MAJOR);
}

static bool is_there(int local_rank, struct err *err)
{
    int gpu = 0;
    return choose_gpu(local_rank, &gpu, err) && is_new_enough(gpu, err);
}

/* --- memory ------------------------------------------------------------------------------- */

/* Fills memory with NaN. cudaMemset is asynchronous and not ordered with our streams, so a stream's
 * fill is used. */
static void poison_memory(struct device *device, struct stream *stream, void *memory, size_t bytes)
{
    if (stream) {
        cuda_stream_fill(stream, memory, poison, bytes);
        return;
    }
    device_check(device, cudaMemset(memory, poison, bytes), "cudaMemset");
    device_check(device, cudaStreamSynchronize(NULL), "cudaMemset");
}

/* The requested bytes include a margin, so a GPU with slightly less free memory is fine. Kernel
 * code, workspaces and NCCL buffers are allocated later. */
static size_t at_most_free(size_t bytes)
{
    const size_t most_left_bytes = (size_t)1 << 30;
    size_t free_bytes = 0, all_bytes = 0;
    if (cudaMemGetInfo(&free_bytes, &all_bytes) != cudaSuccess)
        return bytes;
    size_t left_bytes = free_bytes / 16 < most_left_bytes ? free_bytes / 16 : most_left_bytes;
    return bytes < free_bytes - left_bytes ? bytes : free_bytes - left_bytes;
}

static bool map_memory(struct device *device, size_t bytes, struct err *err)
{
    size_t free_bytes = 0, all_bytes = 0;
    void *memory = NULL;
    bytes = bytes > 0 ? at_most_free(bytes) : REGION_ALIGNMENT;
    cudaError_t status = cudaMalloc(&memory, bytes);
    if (status != cudaSuccess) {
        cudaGetLastError(); /* clears the error, so that no later call reports it */
        cudaMemGetInfo(&free_bytes, &all_bytes);
        return err_set(err, ERR_SYSTEM, "memory",
                       "cannot allocate %zu bytes; the GPU has %zu, of which %zu are free: %s",
                       bytes, all_bytes, free_bytes, cudaGetErrorString(status));
    }
    device->memory = memory;
    device->region = region_new(bytes);
    if (device->poisons)
        poison_memory(device, NULL, memory, bytes);
    return failure_check(&device->failure, err);
}

static void *alloc_memory(struct device *device, struct stream *stream, size_t bytes,
                          struct err *err)
{
    size_t offset;
    pthread_mutex_lock(&device->mutex);
    bool fits = region_take(device->region, bytes, &offset);
    struct region_sizes sizes = region_sizes(device->region);
    pthread_mutex_unlock(&device->mutex);
    if (!fits) {
        err_set(err, ERR_SYSTEM, "memory",
                "%zu bytes do not fit: %zu of the arena's %zu bytes are in use", bytes,
                sizes.used_bytes, sizes.capacity_bytes);
        return NULL;
    }
    if (device->poisons)
        poison_memory(device, stream, device->memory + offset, bytes);
    return device->memory + offset;
}

static void free_memory(struct device *device, struct stream *stream, void *memory)
{
    if (!memory)
        return;
    pthread_mutex_lock(&device->mutex);
    size_t bytes =
        region_give_back(device->region, (size_t)((unsigned char *)memory - device->memory));
    /* The mutex is still locked, because the memory must not be handed out before its fill is
     * issued. */
    if (device->poisons)
        poison_memory(device, stream, memory, bytes);
    pthread_mutex_unlock(&device->mutex);
}

static struct region_sizes memory_sizes(struct device *device)
{
    pthread_mutex_lock(&device->mutex);
    struct region_sizes sizes = region_sizes(device->region);
    pthread_mutex_unlock(&device->mutex);
    return sizes;
}

static void *pinned_alloc(struct device *device, size_t bytes, struct err *err)
{
    void *memory = NULL;
    cudaError_t status =
        device_use(device) ? cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) : cudaErrorUnknown;
    if (status == cudaSuccess)
        return memory;
    cudaGetLastError(); /* clears the error, so that no later call reports it */
    err_set(err, ERR_SYSTEM, "memory", "cannot pin %zu bytes of host memory: %s", bytes,
            cudaGetErrorString(status));
    return NULL;
}

static void pinned_free(struct device *device, void *memory)
{
    if (memory && !atomic_load(&device->is_aborted) && device_use(device))
        cudaFreeHost(memory);
}

/* --- opening and closing
 * ------------------------------------------------------------------------------- */

/* After an abort kernels may still run, so nothing is freed; the process ends soon. */
static void close_device(struct device *device)
{
    if (!device)
        return;
    cuda_stream_free(device->clock_stream);
    cuda_notes_release(device);
    if (device->memory && !atomic_load(&device->is_aborted) && device_use(device))
        cudaFree(device->memory);
    region_free(device->region);
    pthread_mutex_destroy(&device->mutex);
    failure_release(&device->failure);
    free(device);
}

static struct device *open_device(const struct device_options *options, struct err *err)
{
    int gpu = 0;
    if (!choose_gpu(options->local_rank, &gpu, err) || !is_new_enough(gpu, err))
        return NULL;
    struct device *device = arena_grow(NULL, sizeof *device);
    *device = (struct device){ .gpu = gpu, .poisons = options->poisons };
    snprintf(device->where, sizeof device->where, "GPU %d", gpu);
    pthread_mutex_init(&device->mutex, NULL);
    failure_init(&device->failure);
    device_use(device);
    if (failure_check(&device->failure, err) && map_memory(device, options->arena_bytes, err) &&
        cuda_posts_open(device, err) && cuda_clock_open(device, err))
        return device;
    close_device(device);
    return NULL;
}

static void abort_device(struct device *device)
{
    atomic_store(&device->is_aborted, true);
}

const struct device_api device_cuda = {
    .name = "cuda",
    .is_there = is_there,
    .open = open_device,
    .close = close_device,
    .abort = abort_device,
    .alloc = alloc_memory,
    .free = free_memory,
    .memory = memory_sizes,
    .pinned_alloc = pinned_alloc,
    .pinned_free = pinned_free,
    .stream_new = cuda_stream_new,
    .stream_free = cuda_stream_free,
    .stream_sync = cuda_stream_sync,
    .copy = cuda_stream_copy,
    .fill = cuda_stream_fill,
    .post = cuda_stream_post,
    .note = cuda_stream_note,
    .event_new = cuda_event_new,
    .event_free = cuda_event_free,
    .record = cuda_event_record,
    .wait = cuda_event_wait,
    .event_sync = cuda_event_sync,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .graph_launch = cuda_graph_launch,
    .graph_free = cuda_graph_free,
    .graph_verify_begin = cuda_graph_verify_begin,
    .graph_verify_end = cuda_graph_verify_end,
};
