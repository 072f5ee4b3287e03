/* kernels/host/blas.h - matrix products, by OpenBLAS if the machine has it, else by the code in
 * own_blas.c.
 *
 * Every op with a product takes the implementation as an argument, so that one program can compare
 * both. OpenBLAS is loaded on request and not linked, because its start-up creates threads and most
 * commands multiply no matrices. */
#ifndef KERNELS_HOST_BLAS_H
#define KERNELS_HOST_BLAS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* c[m,n] = alpha a[m,k] b[k,n] + beta c, row-major; strides are in elements from row to row.
 * If an operand is transposed, it is stored as a [k,m] or b [n,k]. With beta 0, c is not read. c
 * overlaps neither a nor b. */
struct product {
    long m, n, k;
    bool a_is_transposed, b_is_transposed;
    float alpha, beta;
    const float *a, *b;
    float *c;
    long a_stride, b_stride, c_stride;
};

struct blas {
    const char *name; /* "openblas", "own" */
    void (*product)(const struct blas *blas, const struct product *product);
    void (*sgemm)(void); /* OpenBLAS's function; only for blas.c */
};

/* Blocked products in plain C, which give the same bits on every machine. */
extern const struct blas own_blas;

/* Finds OpenBLAS and limits it to one thread per rank. Call it once per process, before other
 * threads start: it sets OPENBLAS_NUM_THREADS, and OPENBLAS_CORETYPE when the library does not know
 * the machine. ERR_UNAVAILABLE when the library is missing. It stays loaded. */
bool openblas_find(struct blas *out, struct err *err);

/* Describes the loaded library and the kernels that it chose: "OpenBLAS 0.3.21 ... SkylakeX". */
void openblas_describe(char *text, size_t size);

#endif
