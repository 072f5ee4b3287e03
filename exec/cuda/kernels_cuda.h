/* exec/cuda/kernels_cuda.h - the table of the kernels that run on a GPU. */
#ifndef EXEC_CUDA_KERNELS_CUDA_H
#define EXEC_CUDA_KERNELS_CUDA_H

#include "exec/device/kernels.h"

extern const struct kernel_api kernels_cuda; /* on streams of device_cuda */

#endif
