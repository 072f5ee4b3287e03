/* tests/cuda_on_host/nccl_board.h - what the ranks of a communicator have between them: memory that
 * all of them see. */
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

/* All of it nought is its first state. */
struct board {
    atomic_int num_arrived, turn; /* of the barrier */
    atomic_bool is_aborted;
    int colors[BOARD_RANKS], keys[BOARD_RANKS];
    char slots[BOARD_RANKS][SLOT_BYTES];
    struct mailbox mailboxes[BOARD_RANKS][BOARD_RANKS]; /* [from][to] */
};

/* The board of that name, created by the first rank; NULL when there is no memory. After all have
 * met, its name is removed. */
struct board *board_open(const char *name, int size);
void board_close(struct board *board);

/* Until all have come; false when somebody aborts, or nobody comes for a minute. */
bool board_meet(struct board *board, int size);
/* One turn of a loop that waits; false as above. `tries` counts the turns. */
bool board_wait(struct board *board, long *tries);

#endif
