/* tests/cuda_on_host/grid.h - the threads of a CUDA grid, one after another on one thread of the
 * host.
 *
 * Blocks run one by one; in a block each thread runs until it must meet others. Threads of a warp
 * run in random order; one warp, drawn anew at each barrier, runs ahead as far as it can, so that a
 * kernel with a missing barrier reads values that are not yet written or already overwritten.
 * Shared memory is filled with NaN before each block and is as long as the launch said. A barrier
 * that cannot complete ends the program with a message. */
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

/* The coordinates that the running thread sees. */
struct grid_place {
    struct grid_index thread, block, num_threads, num_blocks;
    char *shared;
};

/* The grid that runs on this host thread. Static TLS is accessed without a call. */
#define STATIC_TLS __attribute__((tls_model("initial-exec")))
extern __thread const struct grid_place *grid_now STATIC_TLS;

/* A kernel's blocks may use 48 KiB of shared memory, or what was last requested; false when a
 * request exceeds the smallest GPU's. */
int grid_ask_shared(const void *kernel, size_t bytes);
int grid_may_share(const void *kernel, size_t bytes);

/* Runs kernel(args) as every thread of the grid. False when a block has more than MOST_THREADS. */
int grid_run(const struct grid_shape *shape, void (*kernel)(void *args), void *args);

/* A test that runs kernels in another way than as the host's compiler has them (tests/kernels/ptx)
 * gets all launches here: the kernel, as a function of this program, and where each of its
 * parameters is. False fails the launch. NULL: grid_run runs them. */
typedef int grid_interpreter(const void *kernel, const struct grid_shape *shape,
                             const void *const *arguments);
extern grid_interpreter *grid_interpreted_by;

/* Frees what grids keep on their host thread for the next one. */
void grid_release(void);

/* Called when threads meet: offers[i] is thread i's contribution; NULL: the thread has ended. */
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
