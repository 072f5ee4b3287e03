/* Replaces the header of this name, which NVRTC lacks, as far as kernels/cuda needs it. */
#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t, uintptr_t;
