/* exec/cuda/comms_cuda.h - the communicators of ranks on GPUs: NCCL, and `staged` through the
 * host. */
#ifndef EXEC_CUDA_COMMS_CUDA_H
#define EXEC_CUDA_COMMS_CUDA_H

#include "exec/comm/comm.h"

extern const struct comm_api comm_nccl; /* only when the plugin is built with NCCL */
extern const struct comm_api comm_staged;

#endif
