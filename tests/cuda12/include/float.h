/* In place of the header of this name, for NVRTC, which has none: as much as kernels/cuda needs. */
#pragma once
#define FLT_MAX 3.402823466e+38F
