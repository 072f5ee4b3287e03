/* kernels/cuda/gemm_table.h - the cuBLASLt algorithm chosen for each shape of product.
 *
 * A text file with one line per shape: its numbers, then the 8 hexadecimal words of the algorithm
 * (cublasLtMatmulAlgo_t), which cuBLASLt allows programs to store and use again with the same
 * library version. Lines of other versions, drivers and GPUs are kept but not used. Runs that share
 * the file use the same algorithms and get the same bits. */
#ifndef KERNELS_CUDA_GEMM_TABLE_H
#define KERNELS_CUDA_GEMM_TABLE_H

#include "base/err.h"

#include <stdint.h>

/* Everything on which the choice of an algorithm depends. */
// clang-format off
#define GEMM_SHAPE(X)                                                               \
    X(library) /* version of cuBLASLt */                                            \
    X(driver) /* CUDA version of the driver: after an update products are tuned again */       \
    X(capability) /* 90 for sm_90 */                                                \
    X(num_processors) /* multiprocessors of the GPU, or of the available part of it */      \
    X(m) X(n) X(k) X(a_is_transposed) X(b_is_transposed)                            \
    X(a_stride) X(b_stride) X(c_stride) X(batch) X(a_step) X(b_step) X(c_step)      \
    X(storage) X(c_dtype) X(epilogue) X(is_added)                                   \
    X(alignment_bytes) /* largest power of 2, up to 256, that divides all addresses */
// clang-format on
struct gemm_shape {
#define X(name) int64_t name;
    GEMM_SHAPE(X)
#undef X
};

struct gemm_choice {
    struct gemm_shape shape;
    uint64_t is_taken; /* 0: the product runs without the fused epilogue */
    uint64_t algorithm[8];
    uint64_t workspace_bytes;
};

struct gemm_table {
    struct gemm_choice *at;
    int count;
    int *slots; /* hash table of shapes: index into `at`, -1: empty */
    int num_slots;
};

/* A missing file is an empty table. ERR_INPUT at the first malformed line. The caller releases the
 * table in either case. */
bool gemm_table_read(const char *path, struct gemm_table *table, struct err *err);
/* Adds the entries that the file lacks; entries that other processes added stay. When two processes
 * add at the same time, one may lose its entries until it adds again. */
bool gemm_table_add_to_file(const char *path, const struct gemm_table *table, struct err *err);
void gemm_table_release(struct gemm_table *table);

/* The first entry of the shape; NULL: none. Valid until the next one is added. */
const struct gemm_choice *gemm_table_find(const struct gemm_table *table,
                                          const struct gemm_shape *shape);
void gemm_table_add(struct gemm_table *table, const struct gemm_choice *choice);

#endif
