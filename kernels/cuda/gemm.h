/* kernels/cuda/gemm.h - products of matrices by cuBLASLt, and which of its algorithms run.
 *
 * The first product of a shape is tuned: the algorithms that the library proposes are timed on the
 * stream and the fastest is kept, in memory and in the table (gemm_table.h). That call waits for
 * the stream, and takes memory for a second result where the product is added to one; when there is
 * none, or when the stream is being captured, the library's first proposal runs, then and later,
 * and the table has none. The library is asked once for each shape: under capture cuBLASLt 13.3
 * answers no question (mudler/vllm.cpp#1732). */
#ifndef KERNELS_CUDA_GEMM_H
#define KERNELS_CUDA_GEMM_H

#include "base/err.h"
#include "kernels/cuda/launch.h"

/* As `struct product` of kernels/host/blas.h: c[m,n] = a[m,k] b[k,n] + beta c, row-major; a
 * transposed operand is stored the other way round. a and b are values as stored; so is c, or
 * fp32. Of `batch` products the matrices lie `step` values apart (0: the same one). */
struct gemm_product {
    long m, n, k;
    bool a_is_transposed, b_is_transposed;
    bool is_added;            /* beta: 1 or 0 */
    enum dtype c_dtype;       /* as `storage`, or fp32 */
    const void *a, *b, *bias; /* bias[n], as c; NULL: none */
    void *c;
    float *a_sums; /* [m]: of a over k, where c is fp32; NULL: not asked for */
    /* As c, with its stride. c is gelu of what is written to the first; c is multiplied by gelu's
     * derivative at the second. NULL: neither. */
    void *before_gelu;
    const void *gelu_at;
    long a_stride, b_stride, c_stride;
    long batch, a_step, b_step, c_step;
};

/* On the current device. `table_path` (kept by copy) is read here and added to after each tuning,
 * where it can be written; NULL: no file. One thread at a time uses it. NULL with err. */
struct gemm *gemm_open(const char *table_path, struct err *err);
void gemm_close(struct gemm *gemm);

/* Whether the library has an algorithm for it that runs: not every epilogue has one for every
 * shape, and not all that it proposes do. Tunes the first of a shape, which overwrites what is not
 * added to. */
bool gemm_offers(const struct launch *on, const struct gemm_product *product);

/* What may be issued any number of times. */
struct gemm_work {
    cudaError_t (*issue)(const struct launch *on, const void *args);
    const void *args;
};

/* gemm_offers, and that the product with its a_sums is no slower than without them and `pass`,
 * which makes them, behind it. That is timed when the product is tuned, and the table says it
 * later. */
bool gemm_sums_pay(const struct launch *on, const struct gemm_product *product,
                   const struct gemm_work *pass);

cudaError_t gemm_run(const struct launch *on, const struct gemm_product *product);

/* What cuBLASLt failed at last; "" when nothing did. Valid until the next failure. */
const char *gemm_failure(const struct gemm *gemm);

#endif
