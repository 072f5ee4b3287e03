/* tests/cuda_on_host/nccl_board.h - the shared memory of the ranks of a communicator. */
#ifndef TESTS_CUDA_ON_HOST_NCCL_BOARD_H
#define TESTS_CUDA_ON_HOST_NCCL_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { BOARD_RANKS = 16, SLOT_BYTES = 1 << 16, MAILBOX_BYTES = 1 << 12 };

struct mailbox {
    atomic_int bytes; /* 0: empty */
    char text[MAILBOX_BYTES];
};

/* Its initial state is all zeros. */
struct board {
    atomic_int num_arrived, turn; /* state of the barrier */
    atomic_bool is_aborted;
    int colors[BOARD_RANKS], keys[BOARD_RANKS];
    char slots[BOARD_RANKS][SLOT_BYTES];
    struct mailbox mailboxes[BOARD_RANKS][BOARD_RANKS]; /* [from][to] */
};

/* Opens the board with this name, which the first rank creates; NULL when there is no memory. The
 * name is removed when all ranks have met. */
struct board *board_open(const char *name, int size);
void board_close(struct board *board);

/* Waits until all ranks have arrived; false when a rank aborts or no rank arrives for a minute. */
bool board_meet(struct board *board, int size);
/* One iteration of a waiting loop; false as for board_meet. `tries` counts the iterations. */
bool board_wait(struct board *board, long *tries);

#endif
