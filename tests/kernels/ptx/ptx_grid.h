/* tests/kernels/ptx/ptx_grid.h - runs kernels of PTX on the host, warp by warp.
 *
 * Lanes of a warp that are at the same instruction run it together. Lanes that have branched apart
 * take turns, the ones furthest behind first; at instructions that a whole warp executes, they wait
 * for the others. Which warp runs next, and for how long, is drawn anew each time. A launch ends at
 * the first access that is wrong (ptx_memory.h), and at threads that wait for each other for ever.
 */
#ifndef TESTS_KERNELS_PTX_PTX_GRID_H
#define TESTS_KERNELS_PTX_PTX_GRID_H

#include "tests/kernels/ptx/ptx_machine.h"

/* False with the thread, the line of the text, and what is wrong. */
bool ptx_run(struct ptx_machine *machine, const struct ptx_launch *launch, struct err *err);

#endif
