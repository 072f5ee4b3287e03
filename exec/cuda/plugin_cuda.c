#include "exec/cuda/comms_cuda.h"
#include "exec/cuda/device_cuda.h"
#include "exec/cuda/kernels_cuda.h"
#include "exec/plugin/plugin.h"

#include <stdlib.h>

/* Streams that share a hardware queue wait for each other, which can deadlock two ranks. A rank has
 * ten streams, and NCCL adds two per communicator. CUDA's default is 8 queues and the maximum 32.
 * The driver reads the variable when it starts. */
static void part_streams(void)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

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
    part_streams();
    return &backend;
}
