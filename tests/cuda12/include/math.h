/* Replaces the header of this name, which NVRTC lacks, as far as kernels/cuda needs it. */
#pragma once
#define NAN      __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
