/* tests/kernels/ptx/ptx_grid.h - runs kernels of PTX on the host, warp by warp.
 *
 * Lanes of a warp that are at the same instruction run it together. Lanes that have branched apart
 * take turns, the ones furthest behind first; at instructions that a whole warp executes, they wait
 * for the others. Which warp runs next, and for how long, is drawn anew each time. A launch ends at
 * the first access that is wrong (ptx_memory.h), and at threads that wait for each other for ever.
 */
#ifndef TESTS_KERNELS_PTX_PTX_GRID_H
#define TESTS_KERNELS_PTX_PTX_GRID_H

#include "base/random.h"
#include "tests/kernels/ptx/ptx_matrix.h"
#include "tests/kernels/ptx/ptx_memory.h"
#include "tests/kernels/ptx/ptx_module.h"

struct ptx_machine {
    struct ptx_memory memory;
    struct ptx_numerics numerics;
    struct random random;
    uint64_t num_instructions; /* of warps, executed so far */
};

struct ptx_launch {
    const struct ptx_kernel *kernel; /* decoded */
    unsigned blocks[3], threads[3];
    size_t shared_bytes;
    const void *const *arguments; /* one of each parameter's size */
};

/* False with the thread, the line of the text, and what is wrong. */
bool ptx_run(struct ptx_machine *machine, const struct ptx_launch *launch, struct err *err);

#endif
