/* tests/cuda_on_host/cuda.h - replaces the toolkit's header for the part of CUDA's driver that
 * exec/cuda needs. Functions are found by cudaGetDriverEntryPointByVersion. */
#ifndef TESTS_CUDA_ON_HOST_CUDA_H
#define TESTS_CUDA_ON_HOST_CUDA_H

#include <cuda_runtime_api.h>
#include <stdint.h>

typedef enum { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED = 801 } CUresult;
typedef cudaStream_t CUstream;
typedef unsigned long long CUdeviceptr;
typedef uint32_t cuuint32_t;
enum { CU_STREAM_WAIT_VALUE_GEQ = 0, CU_STREAM_WRITE_VALUE_DEFAULT = 0 };

#endif
