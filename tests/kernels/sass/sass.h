/* tests/kernels/sass/sass.h - machine code that ptxas makes of a kernel's PTX for sm_90a.
 *
 * An instruction has 16 bytes. The numbers of its fields are not published; they were read off
 * nvdisasm 13.0, with whose text this file's opcodes, widths and branch targets agree for every
 * kernel of kernels/cuda. */
#ifndef TESTS_KERNELS_SASS_SASS_H
#define TESTS_KERNELS_SASS_SASS_H

#include "base/arena.h"
#include "base/err.h"

#include <stdint.h>

/* A stretch of instructions, as one warp runs them once. */
struct sass_work {
    long code_bytes;
    long num_products; /* HMMA.16816, each 16 x 8 x 16 multiplications and additions */
    long num_copies;   /* LDGSTS */
    long shared_bytes; /* that LDSM, LDS, STS and LDGSTS move, of all lanes */
    long global_bytes; /* that LDG, STG and LDGSTS move */
};

struct sass_kernel {
    int registers, spill_bytes /* stored and loaded */, stack_bytes;
    int shared_bytes; /* without what a launch adds */
    struct sass_work all;
    /* The shortest loop with all the products that any has; without products, the innermost loop
     * with the most bytes of global memory. Zeros: no loop. */
    struct sass_work loop;
};

/* The version of ptxas, as "13.1.80". False where it does not run. */
bool sass_version(char version[32]);

/* Assembles one kernel of a file of PTX, by the name that it has there. */
bool sass_assemble(struct arena *arena, const char *ptx_path, const char *name,
                   struct sass_kernel *out, struct err *err);

/* Thread blocks that a multiprocessor of sm_90 holds at once. */
int sass_resident_blocks(int registers, int threads, long shared_bytes);

#endif
