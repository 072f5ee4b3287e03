/* Words of pinned memory that a stream writes, or waits for, without the host. */
#include "exec/cuda/device_cuda.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- the driver's calls ------------------------------------------------------------------- */

/* Looks up the driver's function through the runtime, so that the driver library need not be
 * linked. Stores the function, or NULL, in the function pointer to which `call` points. */
static void find_call(const char *name, void *call)
{
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    enum { SINCE = 12000 };
    cudaError_t status =
        cudaGetDriverEntryPointByVersion(name, &found, SINCE, cudaEnableDefault, &result);
#else
    cudaError_t status = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
    if (status != cudaSuccess || result != cudaDriverEntryPointSuccess)
        found = NULL;
    memcpy(call, &found, sizeof found); /* converts to a function pointer as in dlsym(3) */
}

/* Pinned memory has one address for host and GPU. */
static CUdeviceptr address_of(const _Atomic uint32_t *word)
{
    return (CUdeviceptr)(uintptr_t)word;
}

/* Whether the device supports `call`, which writes 0 to a word or waits until the word is at least
 * 0. No attribute of a device states this: the only attribute about 32-bit words concerns an older
 * form of these calls (cuda.h of CUDA 13.0, "Stream Memory Operations"). */
static bool is_taken(value_call *call, struct stream *stream, _Atomic uint32_t *word,
                     unsigned flags)
{
    return call && call(stream->cuda, address_of(word), 0, flags) == CUDA_SUCCESS &&
           cudaStreamSynchronize(stream->cuda) == cudaSuccess;
}

static void try_calls(struct device *device, struct stream *stream, _Atomic uint32_t *word)
{
    if (!is_taken(device->write_value, stream, word, CU_STREAM_WRITE_VALUE_DEFAULT))
        device->write_value = NULL;
    if (!is_taken(device->wait_value, stream, word, CU_STREAM_WAIT_VALUE_GEQ))
        device->wait_value = NULL;
    (void)cudaGetLastError(); /* an unsupported call is no failure */
}

bool cuda_posts_open(struct device *device, struct err *err)
{
    void *word = NULL;
    struct stream *stream = cuda_stream_new(device, "trial", err);
    if (!stream)
        return false;
    find_call("cuStreamWriteValue32", &device->write_value);
    find_call("cuStreamWaitValue32", &device->wait_value);
    find_call("cuMemsetD32Async", &device->fill_words);
    bool ok = device_check(device, cudaHostAlloc(&word, sizeof(uint32_t), cudaHostAllocMapped),
                           "cudaHostAlloc");
    if (ok) {
        atomic_init((_Atomic uint32_t *)word, 0);
        try_calls(device, stream, word);
    }
    cuda_stream_free(stream);
    cudaFreeHost(word);
    if (ok && !device->write_value && !device->fill_words)
        return err_set(err, ERR_UNAVAILABLE, device->where,
                       "the driver has neither cuStreamWriteValue32 nor cuMemsetD32Async");
    return ok || failure_check(&device->failure, err);
}

/* --- words -------------------------------------------------------------------------------- */

void cuda_stream_post(struct stream *stream, _Atomic uint32_t *word, uint32_t number)
{
    struct device *device = stream->device;
    if (!stream_takes_outside_graphs(stream))
        return;
    if (device->write_value)
        device_check_driver(device,
                            device->write_value(stream->cuda, address_of(word), number,
                                                CU_STREAM_WRITE_VALUE_DEFAULT),
                            "cuStreamWriteValue32");
    else
        device_check_driver(device, device->fill_words(address_of(word), number, 1, stream->cuda),
                            "cuMemsetD32Async");
}

struct awaited {
    const _Atomic uint32_t *word;
    uint32_t number;
};

static void CUDART_CB await_word(void *context)
{
    struct awaited *awaited = context;
    while ((int32_t)(atomic_load(awaited->word) - awaited->number) < 0)
        nanosleep(&(struct timespec){ .tv_nsec = 10000 }, NULL);
    free(awaited);
}

void cuda_stream_await(struct stream *stream, const _Atomic uint32_t *word, uint32_t number)
{
    struct device *device = stream->device;
    if (!stream_takes_outside_graphs(stream))
        return;
    if (device->wait_value) {
        device_check_driver(
            device,
            device->wait_value(stream->cuda, address_of(word), number, CU_STREAM_WAIT_VALUE_GEQ),
            "cuStreamWaitValue32");
        return;
    }
    struct awaited *awaited = arena_grow(NULL, sizeof *awaited);
    *awaited = (struct awaited){ word, number };
    if (!device_check(device, cudaLaunchHostFunc(stream->cuda, await_word, awaited),
                      "cudaLaunchHostFunc"))
        free(awaited);
}
