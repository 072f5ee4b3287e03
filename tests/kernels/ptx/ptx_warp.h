/* tests/kernels/ptx/ptx_warp.h - a warp of a running block. ptx_grid.c runs the warps
 * alternately. */
#ifndef TESTS_KERNELS_PTX_PTX_WARP_H
#define TESTS_KERNELS_PTX_PTX_WARP_H

#include "tests/kernels/ptx/ptx_machine.h"

/* A pending asynchronous copy. It writes `bytes` bytes of `from`, then zeros up to 16 bytes. */
struct ptx_copy {
    uint64_t to, from;
    size_t bytes;
    int group;
};

struct ptx_copies {
    struct ptx_copy *at; /* pending copies, the oldest first */
    int count, capacity;
    int group; /* number of the open group */
};

struct ptx_warp {
    char *registers;
    int pc[PTX_LANES];
    uint32_t alive;        /* lanes that have not returned */
    uint16_t epoch;        /* number of barriers that the warp has passed */
    uint32_t first_thread; /* number of the thread in the grid, as in struct ptx_toucher */
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

/* Runs the warp for at most the given number of instructions. */
enum ptx_stop ptx_run_warp(struct ptx_block *block, struct ptx_warp *warp, int steps);

#endif
