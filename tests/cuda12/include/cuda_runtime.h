/* Replaces the header of this name for NVRTC, which has the toolkit's types built in. Here a launch
 * only refers to its kernel, so that NVRTC compiles the kernel. */
#pragma once
#include <cuda_runtime_api.h>

template <typename Kernel> cudaError_t cudaFuncSetAttribute(Kernel *kernel, cudaFuncAttribute, int)
{
    return kernel ? cudaSuccess : cudaErrorInvalidValue;
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *, void (*kernel)(Parameters...),
                               Arguments...)
{
    return kernel ? cudaSuccess : cudaErrorInvalidValue;
}
