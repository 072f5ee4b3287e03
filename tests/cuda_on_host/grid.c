#include "tests/cuda_on_host/grid.h"

#include "base/random.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

/* The distance of stacks is slightly more than a power of two, so that they use different cache
 * lines. */
enum {
    STACK_BYTES = (1 << 16) + 5 * 64,
    MOST_WARPS = MOST_THREADS / WARP_LANES,
    MOST_COPIES = 256
};

/* --- stacks ------------------------------------------------------------------------------- */

#if defined __x86_64__
/* A thread's stack. swapcontext is not used: it calls the kernel for the signal mask, which takes a
 * hundred times as long as the switch. */
struct stack {
    void *pointer;
};
void grid_switch(struct stack *from, const struct stack *to);
__asm__(".text\n"
        ".type grid_switch, @function\n"
        "grid_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n"
        "    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq (%rsi), %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n"
        "    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size grid_switch, .-grid_switch\n");

/* Writes the seven words that grid_switch pops, of which the last is the return address. A function
 * begins with a stack pointer that is 8 bytes off a multiple of 16. */
static void stack_begin(struct stack *stack, char *memory, void (*function)(void))
{
    void **top = (void **)(void *)(memory + STACK_BYTES - sizeof(void *));
    memset(top - 7, 0, 7 * sizeof *top);
    memcpy(top - 1, &function, sizeof function);
    stack->pointer = top - 7;
}
#else
struct stack {
    ucontext_t context;
};
static void grid_switch(struct stack *from, const struct stack *to)
{
    swapcontext(&from->context, &to->context);
}
static void stack_begin(struct stack *stack, char *memory, void (*function)(void))
{
    getcontext(&stack->context);
    stack->context.uc_stack.ss_sp = memory;
    stack->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&stack->context, function, 0);
}
#endif

/* --- threads ------------------------------------------------------------------------------ */

/* A set of threads that wait for each other: a warp or the block. */
struct meeting_place {
    grid_meeting *meeting;
    int first, count; /* range of threads */
    int num_alive, num_waiting;
    void *offers[MOST_THREADS];
};

struct copy {
    void *to;
    const void *from;
    int group;
};

struct thread {
    struct stack stack;
    struct grid_index index;
    int number;
    int num_copies, group; /* number of pending copies, and of the open group */
};

struct grid {
    struct grid_place place; /* coordinates of the running thread */
    void (*kernel)(void *args);
    void *args;
    struct stack scheduler;
    struct thread *running;
    struct thread threads[MOST_THREADS];
    struct copy copies[MOST_THREADS][MOST_COPIES]; /* pending copies, oldest first */
    struct meeting_place warps[MOST_WARPS], block;
    struct ready {
        int threads[WARP_LANES], count;
    } ready[MOST_WARPS];
    int warp_order[MOST_WARPS], num_warps; /* order in which warps run */
    struct random random;
    uint64_t drawn; /* remaining bits of a draw, sixteen per use */
    int num_drawn;
    char *stacks;
    int num_stacks;
};

__thread const struct grid_place *grid_now STATIC_TLS;
grid_interpreter *grid_interpreted_by;
static __thread struct grid *grid STATIC_TLS;

static void *checked(void *memory)
{
    if (!memory) {
        perror("cuda_on_host");
        exit(1);
    }
    return memory;
}

/* Draws a number in [0, n), where n is at most MOST_THREADS. */
static int draw_below(int n)
{
    if (grid->num_drawn == 0) {
        grid->drawn = random_bits(&grid->random);
        grid->num_drawn = 4;
    }
    int drawn = (int)((grid->drawn & 0xffff) * (uint64_t)n >> 16);
    grid->drawn >>= 16;
    grid->num_drawn--;
    return drawn;
}

static void add_ready(int thread)
{
    struct ready *ready = &grid->ready[thread / WARP_LANES];
    ready->threads[ready->count++] = thread;
}

static void make_ready(const struct meeting_place *place)
{
    for (int i = place->first; i < place->first + place->count; i++)
        if (place->offers[i])
            add_ready(i);
}

static void draw_warp_order(void)
{
    for (int i = 0; i < grid->num_warps; i++) {
        int other = draw_below(i + 1);
        grid->warp_order[i] = grid->warp_order[other];
        grid->warp_order[other] = i;
    }
}

/* Takes a ready thread of the first warp that has one. That warp runs ahead of the others until a
 * barrier. */
static struct thread *take_ready(void)
{
    for (int i = 0; i < grid->num_warps; i++) {
        struct ready *ready = &grid->ready[grid->warp_order[i]];
        if (ready->count == 0)
            continue;
        int pick = draw_below(ready->count), thread = ready->threads[pick];
        ready->threads[pick] = ready->threads[--ready->count];
        return &grid->threads[thread];
    }
    return NULL;
}

/* Called when all living threads have arrived: calls their common function `meeting` once. */
static void hold(struct meeting_place *place)
{
    if (place->meeting)
        place->meeting(place->offers + place->first, place->count);
    make_ready(place);
    if (place == &grid->block)
        draw_warp_order();
    memset(place->offers + place->first, 0, sizeof *place->offers * (size_t)place->count);
    place->num_waiting = 0;
}

static void run_next(struct stack *from)
{
    struct thread *next = take_ready();
    const struct stack *to = next ? &next->stack : &grid->scheduler;
    grid->running = next;
    if (next)
        grid->place.thread = next->index;
    if (to != from)
        grid_switch(from, to);
}

static void meet(struct meeting_place *place, grid_meeting *meeting, void *offer)
{
    static char nothing;
    if (place->num_waiting > 0 && place->meeting != meeting) {
        fprintf(stderr, "cuda_on_host: threads of one %s wait at different places\n",
                place == &grid->block ? "block" : "warp");
        abort();
    }
    place->meeting = meeting;
    place->offers[grid->running->number] = offer ? offer : &nothing;
    if (++place->num_waiting == place->num_alive)
        hold(place);
    run_next(&grid->running->stack);
}

void grid_meet_warp(grid_meeting *meeting, void *offer)
{
    meet(&grid->warps[grid->running->number / WARP_LANES], meeting, offer);
}

void grid_meet_block(grid_meeting *meeting, void *offer)
{
    meet(&grid->block, meeting, offer);
}

const void *grid_check_16(const void *at)
{
    if ((uintptr_t)at % 16 == 0)
        return at;
    fprintf(stderr,
            "cuda_on_host: 16 bytes are accessed at an address that is not a multiple of 16\n");
    abort();
}

void grid_copy(void *to, const void *from)
{
    struct thread *thread = grid->running;
    if (draw_below(2) == 0) {
        memcpy(to, from, 16);
        return;
    }
    if (thread->num_copies == MOST_COPIES) {
        fprintf(stderr, "cuda_on_host: a thread has more than %d pending copies\n", MOST_COPIES);
        abort();
    }
    grid->copies[thread->number][thread->num_copies++] = (struct copy){ to, from, thread->group };
}

void grid_copies_commit(void)
{
    grid->running->group++;
}

void grid_copies_wait(int groups_left)
{
    struct thread *thread = grid->running;
    struct copy *copies = grid->copies[thread->number];
    int done = 0;
    for (; done < thread->num_copies; done++) {
        const struct copy *copy = &copies[done];
        if (copy->group >= thread->group - groups_left)
            break;
        memcpy(copy->to, copy->from, 16);
    }
    thread->num_copies -= done;
    memmove(copies, copies + done, sizeof *copies * (size_t)thread->num_copies);
}

/* Removes an ended thread, so that no barrier waits for it. */
static void leave(struct meeting_place *place)
{
    place->num_alive--;
    if (place->num_waiting > 0 && place->num_waiting == place->num_alive)
        hold(place);
}

static void run_thread(void)
{
    grid->kernel(grid->args);
    if (grid->running->num_copies > 0) {
        fprintf(stderr, "cuda_on_host: a thread ends while its copies are pending\n");
        abort();
    }
    leave(&grid->warps[grid->running->number / WARP_LANES]);
    leave(&grid->block);
    run_next(&grid->running->stack);
}

/* --- shared memory ------------------------------------------------------------------------ */

enum { SHARED_ALIGNMENT = 128 }; /* the definition is that of kernels/cuda/ptx.cuh */

enum { SHARED_UNASKED = 48 << 10, MOST_SHARED = 99 << 10, MOST_ASKING = 256 };

static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
static struct asked {
    const void *kernel;
    size_t bytes;
} asked[MOST_ASKING];

/* Returns the entry of a kernel in the table; a new kernel gets the next free entry. */
static struct asked *asked_by(const void *kernel)
{
    for (int i = 0; i < MOST_ASKING; i++)
        if (asked[i].kernel == kernel || !asked[i].kernel) {
            asked[i].kernel = kernel;
            return &asked[i];
        }
    fprintf(stderr, "cuda_on_host: more than %d kernels ask for shared memory\n", MOST_ASKING);
    abort();
}

int grid_ask_shared(const void *kernel, size_t bytes)
{
    if (bytes > MOST_SHARED)
        return 0;
    pthread_mutex_lock(&asking);
    asked_by(kernel)->bytes = bytes;
    pthread_mutex_unlock(&asking);
    return 1;
}

int grid_may_share(const void *kernel, size_t bytes)
{
    if (bytes <= SHARED_UNASKED)
        return 1;
    pthread_mutex_lock(&asking);
    int may = bytes <= asked_by(kernel)->bytes;
    pthread_mutex_unlock(&asking);
    return may;
}

/* --- blocks ------------------------------------------------------------------------------- */

static void open_place(struct meeting_place *place, int first, int count)
{
    place->first = first;
    place->count = place->num_alive = count;
    place->num_waiting = 0;
    memset(place->offers + first, 0, sizeof *place->offers * (size_t)count);
}

static void open_block(struct grid_index threads)
{
    int count = (int)(threads.x * threads.y * threads.z);
    open_place(&grid->block, 0, count);
    for (int first = 0; first < count; first += WARP_LANES)
        open_place(&grid->warps[first / WARP_LANES], first,
                   count - first < WARP_LANES ? count - first : WARP_LANES);
    grid->num_warps = (count + WARP_LANES - 1) / WARP_LANES;
    draw_warp_order();
    for (int i = 0; i < count; i++) {
        struct thread *thread = &grid->threads[i];
        unsigned at = (unsigned)i;
        thread->number = i;
        add_ready(i);
        thread->num_copies = thread->group = 0;
        thread->index = (struct grid_index){ at % threads.x, at / threads.x % threads.y,
                                             at / threads.x / threads.y };
        stack_begin(&thread->stack, grid->stacks + (size_t)i * STACK_BYTES, run_thread);
    }
}

static void run_block(void)
{
    open_block(grid->place.num_threads);
    run_next(&grid->scheduler);
    if (grid->block.num_alive > 0) {
        fprintf(stderr, "cuda_on_host: %d threads wait for each other at different places\n",
                grid->block.num_alive);
        abort();
    }
}

/* Returns the thread's grid, which is kept for the next launch. */
static struct grid *grid_of(int num_threads)
{
    if (!grid) {
        grid = checked(calloc(1, sizeof *grid));
        grid->random = random_new(1, 1);
    }
    if (grid->num_stacks < num_threads) {
        free(grid->stacks);
        grid->stacks = checked(malloc((size_t)num_threads * STACK_BYTES));
        grid->num_stacks = num_threads;
    }
    return grid;
}

int grid_run(const struct grid_shape *shape, void (*kernel)(void *args), void *args)
{
    struct grid_index blocks = shape->blocks, threads = shape->threads;
    unsigned num_threads = threads.x * threads.y * threads.z;
    if (num_threads > MOST_THREADS)
        return 0;
    struct grid *g = grid_of((int)num_threads);
    g->kernel = kernel;
    g->args = args;
    g->place = (struct grid_place){ .num_threads = threads, .num_blocks = blocks };
    grid_now = &g->place;
    for (unsigned at = 0; at < blocks.x * blocks.y * blocks.z; at++) {
        g->place.block = (struct grid_index){ at % blocks.x, at / blocks.x % blocks.y,
                                              at / blocks.x / blocks.y };
        g->place.shared = checked(aligned_alloc(
            SHARED_ALIGNMENT, (shape->shared_bytes / SHARED_ALIGNMENT + 1) * SHARED_ALIGNMENT));
        memset(g->place.shared, 0xff, shape->shared_bytes);
        run_block();
        free(g->place.shared);
    }
    return 1;
}

void grid_release(void)
{
    if (grid)
        free(grid->stacks);
    free(grid);
    grid = NULL;
}
