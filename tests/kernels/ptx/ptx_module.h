/* tests/kernels/ptx/ptx_module.h - parses and decodes the PTX of a source file for ptx_grid.h (PTX
 * ISA 9.0).
 */
#ifndef TESTS_KERNELS_PTX_PTX_MODULE_H
#define TESTS_KERNELS_PTX_PTX_MODULE_H

#include "base/arena.h"
#include "tests/kernels/ptx/ptx_kernel.h"

/* Parses the kernels of `text`, in the arena; `file` is its name in messages. The text must outlive
 * the kernels. On failure returns NULL with an error that names the first unknown line. */
struct ptx_kernel *ptx_parse(struct arena *arena, const char *file, const char *text,
                             struct err *err);
/* Decodes the kernel's instructions if not already done. On failure err names the first unknown
 * instruction. */
bool ptx_decode(struct arena *arena, struct ptx_kernel *kernel, struct err *err);

#endif
