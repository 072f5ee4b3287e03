/* tests/kernels/ptx/ptx_warp.h - a warp of a block that runs; ptx_grid.c runs them by turns. */
#ifndef TESTS_KERNELS_PTX_PTX_WARP_H
#define TESTS_KERNELS_PTX_PTX_WARP_H

#include "tests/kernels/ptx/ptx_machine.h"

/* An asynchronous copy that is under way; it writes `bytes` bytes of `from`, and zeros up to 16. */
struct ptx_copy {
    uint64_t to, from;
    size_t bytes;
    int group;
};

struct ptx_copies {
    struct ptx_copy *at; /* oldest first */
    int count, capacity;
    int group; /* the open one */
};

struct ptx_warp {
    char *registers;
    int pc[PTX_LANES];
    uint32_t alive;        /* lanes that have not returned */
    uint16_t epoch;        /* barriers of the warp that it has passed */
    uint32_t first_thread; /* of the grid, as in struct ptx_toucher */
    struct ptx_copies copies[PTX_LANES];
};

struct ptx_block {
    struct ptx_machine *machine;
    const struct ptx_launch *launch;
    const unsigned char *params;
    uint16_t epoch;
    struct err *err;
};

enum ptx_stop { PTX_STEPS_ARE_OVER, PTX_AT_BARRIER, PTX_ENDED, PTX_FAILED };

/* Runs the warp for so many instructions, unless it must stop before. */
enum ptx_stop ptx_run_warp(struct ptx_block *block, struct ptx_warp *warp, int steps);

#endif
