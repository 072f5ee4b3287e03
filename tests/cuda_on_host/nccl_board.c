#include "tests/cuda_on_host/nccl_board.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct board *board_open(const char *name, int size)
{
    int file = shm_open(name, O_RDWR | O_CREAT, 0600);
    if (file < 0)
        return NULL;
    void *memory =
        ftruncate(file, sizeof(struct board)) == 0
            ? mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
            : MAP_FAILED;
    close(file);
    struct board *board = memory == MAP_FAILED ? NULL : memory;
    bool have_met = board && board_meet(board, size);
    shm_unlink(name); /* only the first rank removes an old name */
    if (have_met)
        return board;
    board_close(board);
    return NULL;
}

void board_close(struct board *board)
{
    if (board)
        munmap(board, sizeof *board);
}

bool board_wait(struct board *board, long *tries)
{
    enum { QUICK_TRIES = 100, PAUSE_NS = 20000, MOST_PAUSES = 60 * 50000 };
    if (++*tries < QUICK_TRIES)
        sched_yield();
    else
        nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
    return !atomic_load(&board->is_aborted) && *tries < QUICK_TRIES + MOST_PAUSES;
}

bool board_meet(struct board *board, int size)
{
    int turn = atomic_load(&board->turn);
    long tries = 0;
    if (atomic_load(&board->is_aborted)) /* ranks that gave up are still counted */
        return false;
    if (atomic_fetch_add(&board->num_arrived, 1) + 1 == size) {
        atomic_store(&board->num_arrived, 0);
        atomic_fetch_add(&board->turn, 1);
        return true;
    }
    while (atomic_load(&board->turn) == turn)
        if (!board_wait(board, &tries))
            return false;
    return true;
}
