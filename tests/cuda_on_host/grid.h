/* tests/cuda_on_host/grid.h - the threads of a CUDA grid, one after another on one thread of the
 * host.
 *
 * Blocks run one by one; in a block each thread runs until it must meet others. Threads of a warp
 * run in random order; one warp, drawn anew at each barrier, runs ahead as far as it can, so that a
 * kernel with a missing barrier reads values that are not yet written or already overwritten.
 * Before each block shared memory, of the size given by the launch, is filled with NaN. A barrier
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

/* Requests shared memory for a kernel's blocks. Returns false if the request exceeds the limit of
 * the smallest GPU. grid_may_share returns whether a block may use this many bytes; up to 48 KiB
 * need no request. */
int grid_ask_shared(const void *kernel, size_t bytes);
int grid_may_share(const void *kernel, size_t bytes);

/* Runs kernel(args) as every thread of the grid. False when a block has more than MOST_THREADS. */
int grid_run(const struct grid_shape *shape, void (*kernel)(void *args), void *args);

/* A test that interprets kernels instead of running the host compiler's code (tests/kernels/ptx)
 * receives all launches here: the kernel as a function of this program, and the address of each
 * parameter. If it returns false, the launch fails. Without an interpreter (NULL) grid_run runs the
 * launches. */
typedef int grid_interpreter(const void *kernel, const struct grid_shape *shape,
                             const void *const *arguments);
extern grid_interpreter *grid_interpreted_by;

/* Frees memory that grids keep on their host thread. */
void grid_release(void);

/* Called when threads meet. offers[i] is the data of thread i; NULL: the thread has ended. */
typedef void grid_meeting(void *const *offers, int count);

/* The caller waits until every living thread of its warp (or block) has arrived. One of them then
 * calls `meeting` for all, unless it is NULL. All threads must pass the same `meeting`. */
void grid_meet_warp(grid_meeting *meeting, void *offer);
void grid_meet_block(grid_meeting *meeting, void *offer);

/* Returns `at`, at which 16 bytes are accessed at once. Ends the program unless `at` is a multiple
 * of 16. */
const void *grid_check_16(const void *at);

/* Asynchronous copies of 16 bytes. A random draw decides for each copy whether it happens at once
 * or only in the wait that guarantees it. Commit closes a group of copies; wait ends all groups of
 * this thread except the latest `groups_left`. */
void grid_copy(void *to, const void *from);
void grid_copies_commit(void);
void grid_copies_wait(int groups_left);

#endif
