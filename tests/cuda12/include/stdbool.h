/* Replaces the header of this name, which NVRTC lacks, as far as kernels/cuda needs it. */
#pragma once
