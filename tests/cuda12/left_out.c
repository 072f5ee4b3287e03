/* Stand-ins for the kernels, so that the rest of the plugin can be linked without nvcc. They are
 * weak symbols, as some launch functions are written in C and linked anyway. */
#include "kernels/cuda/launch.h"

#define X(name, args)                                                                              \
    __attribute__((weak)) cudaError_t launch_##name(const struct launch *on, const struct args *a) \
    {                                                                                              \
        (void)on, (void)a;                                                                         \
        return cudaErrorInvalidValue;                                                              \
    }
KERNELS(X)
EXCHANGE_KERNELS(X)
#undef X

size_t launch_flash_scratch_bytes(const struct attention *attention)
{
    (void)attention;
    return 0;
}
