#include "exec/cuda/comms_cuda.h"
#include "exec/cuda/device_cuda.h"
#include "exec/cuda/kernels_cuda.h"
#include "exec/plugin.h"

#include <stdlib.h>

/* Streams that share a queue of the GPU wait for each other: two ranks could each wait for what the
 * other does not send. There are 8 queues when nobody says, 32 at most, and a rank has ten streams
 * beside two of NCCL's for each communicator. Read when the driver is started. */
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
