/* kernels/cuda/gemm.h - matrix products by cuBLASLt, and the choice of its algorithms.
 *
 * The first product of a shape is tuned: the algorithms that the library proposes are timed on the
 * stream, and the fastest is kept in memory and in the table (gemm_table.h). That call waits for
 * the stream; when the product is added to an existing result, it takes memory for a second one.
 * When that memory is short, or the stream is being captured, the library's first proposal runs,
 * then and later, and the table gets no entry. The library is asked once per shape, as under
 * capture cuBLASLt 13.3 answers no query (mudler/vllm.cpp#1732). */
#ifndef KERNELS_CUDA_GEMM_H
#define KERNELS_CUDA_GEMM_H

#include "base/err.h"
#include "kernels/cuda/launch.h"

/* As `struct product` of kernels/host/blas.h: c[m,n] = a[m,k] b[k,n] + beta c, row-major; a
 * transposed operand is stored the other way round. a and b are in the storage type; c is too, or
 * is fp32. The matrices of `batch` products are `step` values apart (0: shared). */
struct gemm_product {
    long m, n, k;
    bool a_is_transposed, b_is_transposed;
    bool is_added;            /* beta: 1 or 0 */
    enum dtype c_dtype;       /* the storage type, or fp32 */
    const void *a, *b, *bias; /* bias[n], in c's type; NULL: none */
    void *c;
    float *a_sums; /* [m]: sums of a over k, when c is fp32; NULL: not wanted */
    /* Both have c's type and stride. before_gelu: gets the product, and c is its gelu. gelu_at: c
     * is multiplied by gelu's derivative there. NULL: not used. */
    void *before_gelu;
    const void *gelu_at;
    long a_stride, b_stride, c_stride;
    long batch, a_step, b_step, c_step;
};

/* Opens on the current device. `table_path` (copied) is read here and extended after each tuning if
 * it is writable; NULL: no file. For one thread at a time. NULL with err. */
struct gemm *gemm_open(const char *table_path, struct err *err);
void gemm_close(struct gemm *gemm);

/* Whether the library has a working algorithm for the product: some epilogues have none for some
 * shapes, and some proposals fail. Tunes the first product of a shape, which overwrites c unless it
 * is added to. */
bool gemm_offers(const struct launch *on, const struct gemm_product *product);

/* Work that may be issued any number of times. */
struct gemm_work {
    cudaError_t (*issue)(const struct launch *on, const void *args);
    const void *args;
};

/* Whether gemm_offers holds and the product with its a_sums is no slower than the product without
 * them followed by `pass`, which makes them. Timed when the product is tuned, then kept in the
 * table. */
bool gemm_sums_pay(const struct launch *on, const struct gemm_product *product,
                   const struct gemm_work *pass);

cudaError_t gemm_run(const struct launch *on, const struct gemm_product *product);

/* cuBLASLt's last failure; "" when there was none. Valid until the next failure. */
const char *gemm_failure(const struct gemm *gemm);

#endif
