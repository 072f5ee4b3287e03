#include "exec/cuda/comms_cuda.h"
#include "exec/cuda/device_cuda.h"
#include "exec/cuda/kernels_cuda.h"
#include "exec/plugin.h"

const struct backend *simsearch_backend(void)
{
    static const struct comm_api *const comms[] = {
#ifdef HAS_NCCL
        &comm_nccl,
#endif
        &comm_staged, NULL
    };
    static const struct backend backend = { .device = &device_cuda,
                                            .kernels = &kernels_cuda,
                                            .comms = comms };
    return &backend;
}
