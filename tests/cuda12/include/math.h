/* In place of the header of this name, for NVRTC, which has none: as much as kernels/cuda needs. */
#pragma once
#define NAN      __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
