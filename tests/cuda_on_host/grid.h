/* tests/cuda_on_host/grid.h - the threads of a CUDA grid, one after another on one thread of the
 * host.
 *
 * Blocks run one by one; in a block each thread runs until it must meet others. Threads of a warp
 * go on in random order; one warp gets as far ahead as it can, and which one is drawn anew at each
 * barrier, so that a kernel that forgets one reads what was not written yet, or is no more. Shared
 * memory is filled with NaN before each block and is as long as the launch said. A meeting that
 * can't come about ends the program with a sentence. */
#ifndef TESTS_CUDA_ON_HOST_GRID_H
#define TESTS_CUDA_ON_HOST_GRID_H

#include <stddef.h>
#include <stdint.h>

enum { WARP_LANES = 32, MOST_THREADS = 1024 };

struct grid_index {
    unsigned x, y, z;
};

struct grid_shape {
    struct grid_index blocks, threads;
    size_t shared_bytes;
};

/* What the running thread sees. */
struct grid_place {
    struct grid_index thread, block, num_threads, num_blocks;
    char *shared;
};

/* Of the grid that runs on this thread of the host. In the room that a program keeps for the
 * libraries it loads: reached without a call. */
#define STATIC_TLS __attribute__((tls_model("initial-exec")))
extern __thread const struct grid_place *grid_now STATIC_TLS;

/* A kernel's blocks may have 48 KiB of shared memory unasked, and what was asked for last; false
 * when that is more than the GPUs have that have least. */
int grid_ask_shared(const void *kernel, size_t bytes);
int grid_may_share(const void *kernel, size_t bytes);

/* Runs kernel(args) as every thread of the grid. False when a block has more than MOST_THREADS. */
int grid_run(const struct grid_shape *shape, void (*kernel)(void *args), void *args);
/* What grids leave on the thread of the host that ran them, for the next one. */
void grid_release(void);

/* What threads do where they meet: offers[i] is what thread i brought, NULL where it has ended. */
typedef void grid_meeting(void *const *offers, int count);

/* The caller waits until every thread of its warp (of its block) that has not ended is there too;
 * one of them then calls `meeting`, if there is one, for all. All bring the same `meeting`. */
void grid_meet_warp(grid_meeting *meeting, void *offer);
void grid_meet_block(grid_meeting *meeting, void *offer);

/* `at`, where 16 bytes are accessed at once: the program ends unless it is a multiple of 16. */
const void *grid_check_16(const void *at);

/* Copies of 16 bytes that are under way: they arrive at once, or not before the wait that promises
 * them, as is drawn for each. Commit closes a group of them; wait ends all groups of this thread
 * but the latest `groups_left`. */
void grid_copy(void *to, const void *from);
void grid_copies_commit(void);
void grid_copies_wait(int groups_left);

#endif
