/* kernels/cuda/gemm.h - matrix products by cuBLASLt, and the choice of its algorithms.
 *
 * The first product of a shape is tuned: the algorithms that the library proposes are timed on the
 * stream, and the fastest is kept in memory and in the table (gemm_table.h). That call waits for
 * the stream. If the product is added to an existing result, it also allocates memory for a second
 * result to discard; if only part of that memory is available, it times the product's first rows,
 * at least a sixteenth. If less is available, or the stream is being captured, the
 * library's first proposal is used, then and later, and the table file gets no entry. The library
 * is queried once per shape, as cuBLASLt 13.3 answers no query during capture
 * (mudler/vllm.cpp#1732). */
#ifndef KERNELS_CUDA_GEMM_H
#define KERNELS_CUDA_GEMM_H

#include "base/err.h"
#include "kernels/cuda/launch.h"

/* As `struct product` of kernels/host/blas.h: c[m,n] = a[m,k] b[k,n] + beta c, row-major; a
 * transposed operand is stored as [k,m] or [n,k]. a and b are in the storage type; c is in the
 * storage type or in fp32. The matrices of `batch` products are `step` values apart (0: shared). */
struct gemm_product {
    long m, n, k;
    bool a_is_transposed, b_is_transposed;
    bool is_added;            /* beta: 1 or 0 */
    enum dtype c_dtype;       /* the storage type, or fp32 */
    const void *a, *b, *bias; /* bias[n], in c's type; NULL: none */
    void *c;
    float *a_sums; /* [m]: sums of a over k, only if c is fp32; NULL: not computed */
    /* Both have c's type and stride. before_gelu: the product is written there, and c is the gelu
     * of it. gelu_at: c is multiplied by gelu's derivative at these values. NULL: not used. */
    void *before_gelu;
    const void *gelu_at;
    long a_stride, b_stride, c_stride;
    long batch, a_step, b_step, c_step;
};

/* Opens on the current device. The table at `table_path` (copied) is read now and extended after
 * each tuning if it is writable; NULL: no file. Only one thread at a time may use the handle. NULL
 * with err. */
struct gemm *gemm_open(const char *table_path, struct err *err);
void gemm_close(struct gemm *gemm);

/* Whether the library has a working algorithm for the product: for some epilogues and shapes the
 * library has none, and some proposals fail. Tunes the first product of a shape, which overwrites c
 * unless it is added to. */
bool gemm_offers(const struct launch *on, const struct gemm_product *product);

/* Work that can be issued again and again, for timing. */
struct gemm_work {
    cudaError_t (*issue)(const struct launch *on, const void *args);
    const void *args;
};

/* Whether gemm_offers holds, and the product with a_sums is no slower than the product without them
 * followed by `pass`, which computes the sums. This is timed when the product is tuned, and the
 * answer is kept in the table. */
bool gemm_sums_pay(const struct launch *on, const struct gemm_product *product,
                   const struct gemm_work *pass);

cudaError_t gemm_run(const struct launch *on, const struct gemm_product *product);

/* cuBLASLt's last failure; "" when there was none. Valid until the next failure. */
const char *gemm_failure(const struct gemm *gemm);

#endif
