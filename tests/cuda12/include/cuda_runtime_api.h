/* In place of the header of this name, for NVRTC, which has none: as much as kernels/cuda needs. */
#pragma once
#include <stddef.h>

typedef struct CUstream_st *cudaStream_t;
