/* tests/kernels/sass/sass.h - analyses the machine code that ptxas generates from a kernel's PTX
 * for sm_90a.
 *
 * An instruction has 16 bytes. The encoding is not published. It was derived from the output of
 * nvdisasm 13.0. Opcodes, widths and branch targets here agree with nvdisasm for every kernel of
 * kernels/cuda. */
#ifndef TESTS_KERNELS_SASS_SASS_H
#define TESTS_KERNELS_SASS_SASS_H

#include "base/arena.h"
#include "base/err.h"

#include <stdint.h>

/* The work of a sequence of instructions that one warp runs once. */
struct sass_work {
    long code_bytes;
    long num_products; /* number of HMMA.16816 instructions, with 16 x 8 x 16 multiply-adds each */
    long num_copies;   /* LDGSTS */
    long shared_bytes; /* bytes that LDSM, LDS, STS and LDGSTS move, over all lanes */
    long global_bytes; /* bytes that LDG, STG and LDGSTS move */
};

struct sass_kernel {
    int registers, spill_bytes /* bytes of spilled registers, stored and loaded */, stack_bytes;
    int shared_bytes; /* bytes of shared memory, without the dynamic part that a launch adds */
    struct sass_work all;
    /* The main loop: the shortest of the loops with the most matrix products or, if no loop has
     * products, the innermost loop that moves the most bytes of global memory. All members are 0 if
     * there is no loop. */
    struct sass_work loop;
};

/* The version of ptxas, as "13.1.80". False if ptxas cannot be run. */
bool sass_version(char version[32]);

/* Assembles one kernel of a PTX file, given its name in the file. */
bool sass_assemble(struct arena *arena, const char *ptx_path, const char *name,
                   struct sass_kernel *out, struct err *err);

/* Thread blocks that a multiprocessor of sm_90 holds at once. */
int sass_resident_blocks(int registers, int threads, long shared_bytes);

#endif
