/* In place of the header of this name, for NVRTC, which has none: as much as kernels/cuda needs. */
#pragma once
#define offsetof __builtin_offsetof
typedef unsigned long size_t;
