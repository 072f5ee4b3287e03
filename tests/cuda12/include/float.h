/* Replaces the header of this name, which NVRTC lacks, as far as kernels/cuda needs it. */
#pragma once
#define FLT_MAX 3.402823466e+38F
