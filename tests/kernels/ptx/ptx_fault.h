/* tests/kernels/ptx/ptx_fault.h - puts one wrong instruction in a kernel, like a programming error,
 * to check that a test notices it. */
#ifndef TESTS_KERNELS_PTX_PTX_FAULT_H
#define TESTS_KERNELS_PTX_PTX_FAULT_H

#include "tests/kernels/ptx/ptx_module.h"

enum ptx_fault_kind {
    PTX_SWAP,  /* swaps operands a and b */
    PTX_DROP,  /* the instruction does nothing */
    PTX_SHIFT, /* increases operand a's number or address by b */
    PTX_BECOME /* replaces the opcode by another with operands of the same kinds */
};

struct ptx_fault {
    const char *kernel, *opcode; /* part of the kernel's name, and opcode of the instruction */
    enum ptx_fault_kind kind;
    int a, b;
    const char *other; /* PTX_BECOME: the new opcode */
    double which;      /* position among the executed instructions, as a fraction: 0 is the first
                          instruction, 0.5 the middle one */
};

/* Makes the fault in a decoded kernel; false when the kernel has executed no such instruction. */
bool ptx_fault_make(struct arena *arena, struct ptx_kernel *kernel, const struct ptx_fault *fault);

#endif
