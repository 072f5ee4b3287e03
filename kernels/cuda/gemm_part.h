/* kernels/cuda/gemm_part.h - the internals of gemm.h: a product in cuBLASLt's terms (gemm.c), and
 * the choice of its algorithm (gemm_tune.c). Nothing else includes it. */
#ifndef KERNELS_CUDA_GEMM_PART_H
#define KERNELS_CUDA_GEMM_PART_H

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gemm_table.h"

#include <cublasLt.h>

struct gemm {
    cublasLtHandle_t handle;
    int64_t library, driver, capability, num_processors;
    char *table_path;
    struct gemm_table table; /* entries of the file, and shapes tuned since it was read */
    /* shapes without an algorithm, and shapes that could not be timed */
    struct gemm_table unwritten;
    char failure[256];
};

/* A product as cuBLASLt describes it. Its matrices are column-major, so it sees our row-major
 * matrices transposed and computes c^T[n,m] = b^T[n,k] a^T[k,m]. Its first operand is our b. */
struct gemm_call {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, c;
    float alpha, beta;
};

#define TRY(call)                           \
    do {                                    \
        cublasStatus_t tried = (call);      \
        if (tried != CUBLAS_STATUS_SUCCESS) \
            return tried;                   \
    } while (0)

cublasLtEpilogue_t gemm_epilogue(const struct gemm_product *p);
cublasStatus_t gemm_describe(struct gemm_call *call, const struct gemm_product *p,
                             enum dtype storage);

/* Runs the product and writes the result to `to`, which may be p->c. */
cublasStatus_t gemm_multiply(const struct launch *on, const struct gemm_call *call,
                             const struct gemm_product *p, void *to,
                             const cublasLtMatmulAlgo_t *algorithm);

/* The algorithm for a product's shape; the first product of a shape is tuned. NOT_SUPPORTED when
 * none works. */
cublasStatus_t gemm_choose(const struct launch *on, const struct gemm_call *call,
                           const struct gemm_product *p, cublasLtMatmulAlgo_t *out);

#endif
