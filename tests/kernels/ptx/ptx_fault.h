/* tests/kernels/ptx/ptx_fault.h - one wrong instruction in a kernel, as a slip of its author would
 * make it, to see that a test notices. */
#ifndef TESTS_KERNELS_PTX_PTX_FAULT_H
#define TESTS_KERNELS_PTX_PTX_FAULT_H

#include "tests/kernels/ptx/ptx_module.h"

enum ptx_fault_kind {
    PTX_SWAP,  /* operands a and b */
    PTX_DROP,  /* the instruction does nothing */
    PTX_SHIFT, /* operand a's number, or its address, is b more */
    PTX_BECOME /* another opcode with operands of the same kinds */
};

struct ptx_fault {
    const char *kernel, *opcode; /* in a kernel whose name has this in it */
    enum ptx_fault_kind kind;
    int a, b;
    const char *other; /* opcode */
    double which;      /* 0: the first that is executed, 0.5: the one in the middle, ... */
};

/* Makes the fault in a decoded kernel; false when it executed no such instruction so far. */
bool ptx_fault_make(struct arena *arena, struct ptx_kernel *kernel, const struct ptx_fault *fault);

#endif
