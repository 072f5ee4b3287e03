/* tests/kernels/ptx/ptx_library.h - the kernels of a folder of PTX files. A kernel is found by the
 * host function of this program that was compiled from the same source. */
#ifndef TESTS_KERNELS_PTX_PTX_LIBRARY_H
#define TESTS_KERNELS_PTX_PTX_LIBRARY_H

#include "tests/kernels/ptx/ptx_module.h"

struct ptx_library {
    struct arena arena;
    struct ptx_kernel *kernels; /* kernels of all files */
    char *program;              /* contents of this program's executable file */
    uintptr_t moved_by;         /* difference between addresses in memory and in the file */
};

/* Opens every file that ends in .ptx. False when there is none or one cannot be parsed. */
bool ptx_library_open(struct ptx_library *library, const char *folder, struct err *err);
void ptx_library_close(struct ptx_library *library);

/* Finds a kernel by the host compiler's mangled name, and decodes it. */
struct ptx_kernel *ptx_library_find(struct ptx_library *library, const char *name, struct err *err);

/* The mangled name of a function of this program, or NULL. */
const char *ptx_name_of_function(const struct ptx_library *library, const void *function);

#endif
