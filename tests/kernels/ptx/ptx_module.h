/* tests/kernels/ptx/ptx_module.h - the PTX of a source file, decoded for ptx_grid.h (PTX ISA 9.0).
 */
#ifndef TESTS_KERNELS_PTX_PTX_MODULE_H
#define TESTS_KERNELS_PTX_PTX_MODULE_H

#include "base/arena.h"
#include "tests/kernels/ptx/ptx_kernel.h"

/* The kernels of `text`, in the arena; `file` names it in messages. The text must outlive them.
 * NULL with an error that names the first line that is not understood. */
struct ptx_kernel *ptx_parse(struct arena *arena, const char *file, const char *text,
                             struct err *err);
/* The kernel's instructions, unless they are there. False with an error that names the first one
 * that is not known. */
bool ptx_decode(struct arena *arena, struct ptx_kernel *kernel, struct err *err);

#endif
