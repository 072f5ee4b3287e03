/* kernels/host/blas.h - products of matrices: OpenBLAS where the machine has it, else our own.
 *
 * Which of them is a value that every op with a product takes, so that one program can hold them
 * against each other. OpenBLAS is loaded when it is asked for and not linked: its start-up makes
 * threads, and a planner that multiplies nothing should not wait for them. */
#ifndef KERNELS_HOST_BLAS_H
#define KERNELS_HOST_BLAS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* c[m,n] = alpha a[m,k] b[k,n] + beta c, row-major; strides are in elements from row to row.
 * A transposed operand is stored the other way round: a as [k,m], b as [n,k]. With beta 0, c is
 * not read. c overlaps neither a nor b. */
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
    void (*sgemm)(void); /* OpenBLAS's own entry; private */
};

/* Blocked, in plain C; the same bits on every machine. */
extern const struct blas own_blas;

/* Finds OpenBLAS and holds it to one thread a rank. Once a process, before other threads start: it
 * sets OPENBLAS_NUM_THREADS, and OPENBLAS_CORETYPE where the library does not know the machine.
 * ERR_UNAVAILABLE where there is none. It stays loaded. */
bool openblas_find(struct blas *out, struct err *err);

/* "OpenBLAS 0.3.21 ... SkylakeX" of the library that was found: its version and the kernels that it
 * chose. */
void openblas_describe(char *text, size_t size);

#endif
