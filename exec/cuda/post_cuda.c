#include "exec/cuda/device_cuda.h"

#include <string.h>

/* Looks up the driver's function through the runtime, so that the driver library need not be
 * linked. */
value_call *cuda_find_call(const char *name, struct err *err)
{
    void *found = NULL;
    value_call *call = NULL;
    enum cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    enum { SINCE = 12000 };
    cudaError_t status =
        cudaGetDriverEntryPointByVersion(name, &found, SINCE, cudaEnableDefault, &result);
#else
    cudaError_t status = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
    if (status != cudaSuccess || result != cudaDriverEntryPointSuccess)
        err_set(err, ERR_UNAVAILABLE, "cuda", "the driver has no %s", name);
    /* converts to a function pointer as in dlsym(3) */
    else
        memcpy(&call, &found, sizeof call);
    return call;
}

/* Pinned memory has one address for host and GPU. */
CUdeviceptr cuda_address(const _Atomic uint32_t *word)
{
    return (CUdeviceptr)(uintptr_t)word;
}

bool cuda_posts_open(struct device *device, struct err *err)
{
    device->write_value = cuda_find_call("cuStreamWriteValue32", err);
    return device->write_value != NULL;
}

void cuda_stream_post(struct stream *stream, _Atomic uint32_t *word, uint32_t number)
{
    struct device *device = stream->device;
    if (stream_takes_outside_graphs(stream))
        device_check_driver(device,
                            device->write_value(stream->cuda, cuda_address(word), number,
                                                CU_STREAM_WRITE_VALUE_DEFAULT),
                            "cuStreamWriteValue32");
}
