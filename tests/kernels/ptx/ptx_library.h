/* tests/kernels/ptx/ptx_library.h - the kernels of a folder of PTX, found by the functions of this
 * program that they are elsewhere: the same source, compiled for the host. */
#ifndef TESTS_KERNELS_PTX_PTX_LIBRARY_H
#define TESTS_KERNELS_PTX_PTX_LIBRARY_H

#include "tests/kernels/ptx/ptx_module.h"

struct ptx_library {
    struct arena arena;
    struct ptx_kernel *kernels; /* of all files */
    char *program;              /* this one's file */
    uintptr_t moved_by;         /* from the file's addresses to those in memory */
};

/* Every file that ends in .ptx. False when there is none, or one is not understood. */
bool ptx_library_open(struct ptx_library *library, const char *folder, struct err *err);
void ptx_library_close(struct ptx_library *library);

/* By the mangled name of the host's compiler, decoded. */
struct ptx_kernel *ptx_library_find(struct ptx_library *library, const char *name, struct err *err);

/* The mangled name of a function of this program, or NULL. */
const char *ptx_name_of_function(const struct ptx_library *library, const void *function);

#endif
