/* exec/cuda/host_comm_cuda.h - a host communicator used by the GPU communicators. NCCL exchanges
 * its id through it, and `staged` moves its data through it. It is the launcher's default
 * communicator (place_comm). */
#ifndef EXEC_CUDA_HOST_COMM_CUDA_H
#define EXEC_CUDA_HOST_COMM_CUDA_H

#include "exec/comm/comm.h"

struct host_comm {
    const struct comm_api *api;
    struct device *device; /* the host device */
    struct comm *comm;
};

/* All ranks call it together. On failure it returns false with err and leaves nothing open. */
bool host_comm_open(const struct comm_options *options, struct host_comm *out, struct err *err);
void host_comm_close(struct host_comm *host); /* Accepts a struct that is all zeros. */

/* Broadcasts rank 0's bytes to all ranks. */
bool host_comm_tell(struct host_comm *host, int num_ranks, void *bytes, size_t count,
                    struct err *err);

#endif
