/* In place of the header of this name, for NVRTC, which has the toolkit's types built in: a launch
 * asks for the kernel that it names, and so makes it be compiled. */
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
