/* Replaces the header of this name, which NVRTC lacks, as far as kernels/cuda needs it. */
#pragma once
#define offsetof __builtin_offsetof
typedef unsigned long size_t;
