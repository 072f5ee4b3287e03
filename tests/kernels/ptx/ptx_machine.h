/* tests/kernels/ptx/ptx_machine.h - the machine on which launches run, and a launch. */
#ifndef TESTS_KERNELS_PTX_PTX_MACHINE_H
#define TESTS_KERNELS_PTX_PTX_MACHINE_H

#include "base/random.h"
#include "tests/kernels/ptx/ptx_matrix.h"
#include "tests/kernels/ptx/ptx_memory.h"
#include "tests/kernels/ptx/ptx_module.h"

struct ptx_machine {
    struct ptx_memory memory;
    struct ptx_numerics numerics;
    struct random random;
    uint64_t num_instructions; /* instructions that warps have executed so far */
};

struct ptx_launch {
    const struct ptx_kernel *kernel; /* decoded kernel */
    unsigned blocks[3], threads[3];
    size_t shared_bytes;
    const void *const *arguments; /* address of each parameter's value */
};

#endif
