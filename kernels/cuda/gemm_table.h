/* kernels/cuda/gemm_table.h - which of cuBLASLt's algorithms is taken for a product of a shape.
 *
 * A text file: a line for each shape, its numbers and then the 8 hexadecimal words that cuBLASLt
 * says may be kept (cublasLtMatmulAlgo_t) for the version of the library that made them. Lines of
 * other versions and other GPUs are kept and not used. With the file, a run multiplies with the
 * same algorithms as the one before, and gets the same bits. */
#ifndef KERNELS_CUDA_GEMM_TABLE_H
#define KERNELS_CUDA_GEMM_TABLE_H

#include "base/err.h"

#include <stdint.h>

/* All that an algorithm depends on. */
// clang-format off
#define GEMM_SHAPE(X)                                                               \
    X(library) X(capability) /* version of cuBLASLt; 90 for sm_90 */                \
    X(num_processors) /* of the GPU, or of the part of it that is to be had */      \
    X(m) X(n) X(k) X(a_is_transposed) X(b_is_transposed)                            \
    X(a_stride) X(b_stride) X(c_stride) X(batch) X(a_step) X(b_step) X(c_step)      \
    X(storage) X(c_dtype) X(epilogue) X(is_added)                                   \
    X(alignment_bytes) /* the largest power of 2, up to 256, that divides all addresses */
// clang-format on
struct gemm_shape {
#define X(name) int64_t name;
    GEMM_SHAPE(X)
#undef X
};

struct gemm_choice {
    struct gemm_shape shape;
    uint64_t is_taken; /* 0: the product goes without its epilogue */
    uint64_t algorithm[8];
    uint64_t workspace_bytes;
};

struct gemm_table {
    struct gemm_choice *at;
    int count;
    int *slots; /* by the hash of shapes: which of `at`, -1: none */
    int num_slots;
};

/* A file that is not there is an empty table. ERR_INPUT at the first line that is no choice. The
 * caller releases the table, either way. */
bool gemm_table_read(const char *path, struct gemm_table *table, struct err *err);
/* Adds what the file lacks: by now it may have choices of other processes, which stay. Of two that
 * add at the same time one may lose its own, until it adds again. */
bool gemm_table_add_to_file(const char *path, const struct gemm_table *table, struct err *err);
void gemm_table_release(struct gemm_table *table);

/* The first of the shape; NULL when there is none. Valid until the next is added. */
const struct gemm_choice *gemm_table_find(const struct gemm_table *table,
                                          const struct gemm_shape *shape);
void gemm_table_add(struct gemm_table *table, const struct gemm_choice *choice);

#endif
