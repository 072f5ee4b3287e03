/* In place of the header of this name, for NVRTC, which has none: as much as kernels/cuda needs. */
#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t, uintptr_t;
