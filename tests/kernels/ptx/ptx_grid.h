/* tests/kernels/ptx/ptx_grid.h - runs kernels of PTX on the host, warp by warp.
 *
 * Lanes of a warp that are at the same instruction run it together. Lanes that have diverged run
 * alternately, those with the smallest program counter first; at instructions for a whole warp they
 * wait for the other lanes. Which warp runs next, and for how long, is drawn anew each time. A
 * launch fails at the first wrong access (ptx_memory.h) and at a deadlock of threads.
 */
#ifndef TESTS_KERNELS_PTX_PTX_GRID_H
#define TESTS_KERNELS_PTX_PTX_GRID_H

#include "tests/kernels/ptx/ptx_machine.h"

/* Runs a launch. On failure err names the thread, the line of the PTX text and the fault. */
bool ptx_run(struct ptx_machine *machine, const struct ptx_launch *launch, struct err *err);

#endif
