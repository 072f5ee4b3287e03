/* kernels/cuda/launch.h - the ops of kernels/host/args.h on a CUDA stream, one function each.
 *
 * Pointers are to device memory; values have the type `storage`. A call issues its work and returns
 * at once; it never waits and never allocates memory, so any call may be captured in a graph.
 * (Exception: the first product of a shape, see gemm.h.) Every sum has a fixed order: the same call
 * on the same values gives the same bits. Functions return the first error of the launches,
 * normally cudaSuccess; cudaErrorInvalidValue for a shape that no kernel supports. */
#ifndef KERNELS_CUDA_LAUNCH_H
#define KERNELS_CUDA_LAUNCH_H

#include "kernels/host/args.h"
#include "models/op.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The workspace: 32 MiB for cuBLAS, as it uses on Hopper, then room for the sums that a product's
 * epilogue makes. */
enum {
    PRODUCT_BYTES = 32 << 20,
    SUMS_BYTES = 1 << 20,
    WORKSPACE_BYTES = PRODUCT_BYTES + SUMS_BYTES
};

/* Bytes of a value in device memory. */
static inline size_t stored_bytes(enum dtype storage)
{
    switch (storage) {
    case DTYPE_FP32:
        return 4;
    case DTYPE_FP16:
    case DTYPE_BF16:
        return 2;
    case DTYPE_FP8:
        return 1;
    case DTYPE_FP4: /* two share a byte */
    case NUM_DTYPES:
        break;
    }
    return 0;
}

struct gemm; /* handles and tuned algorithms: gemm.h */

/* The stream, types and scratch of a call. */
struct launch {
    cudaStream_t stream;
    enum dtype storage; /* fp32, bf16 or fp16 */
    void *workspace;    /* WORKSPACE_BYTES of device memory, used by no other stream */
    struct gemm *gemm;
};

#define X(name, args) cudaError_t launch_##name(const struct launch *on, const struct args *a);
KERNELS(X)
EXCHANGE_KERNELS(X)
#undef X

/* Multiprocessors of the GPU, or of the available part of it. */
long launch_num_processors(const struct launch *on);

/* Bytes of scratch memory for launch_flash_forward and launch_flash_backward. */
size_t launch_flash_scratch_bytes(const struct attention *attention);

#ifdef __cplusplus
}
#endif

#endif
