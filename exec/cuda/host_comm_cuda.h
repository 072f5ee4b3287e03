/* exec/cuda/host_comm_cuda.h - a communicator of the host beside that of the GPUs: NCCL's ranks
 * meet by it, and `staged` moves bytes with it. The one that the launcher's ranks can meet by. */
#ifndef EXEC_CUDA_HOST_COMM_CUDA_H
#define EXEC_CUDA_HOST_COMM_CUDA_H

#include "exec/comm.h"

struct host_comm {
    const struct comm_api *api;
    struct device *device; /* of the host */
    struct comm *comm;
};

/* All ranks call it together. False with err, and nothing is left. */
bool host_comm_open(const struct comm_options *options, struct host_comm *out, struct err *err);
void host_comm_close(struct host_comm *host); /* accepts one that is all zeros */

/* Gives all ranks what rank 0 has. */
bool host_comm_tell(struct host_comm *host, int num_ranks, void *bytes, size_t count,
                    struct err *err);

#endif
