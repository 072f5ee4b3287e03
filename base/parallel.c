#define _GNU_SOURCE // sched_getaffinity; NOLINT(bugprone-reserved-identifier)
#include "base/parallel.h"

#include "base/arena.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

struct loop {
    size_t n;
    size_t grain;
    void (*body)(void *context, size_t index, int worker);
    void *context;
    atomic_size_t next;
};

struct worker {
    struct loop *loop;
    int id;
    bool started;
    pthread_t thread;
};

int parallel_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    /* in case the machine has more cores than cpu_set_t has bits */
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 1 ? (int)online : 1;
}

static void run_blocks(struct loop *loop, int worker)
{
    for (;;) {
        size_t first = atomic_fetch_add_explicit(&loop->next, loop->grain, memory_order_relaxed);
        if (first >= loop->n)
            return;
        size_t count = loop->n - first < loop->grain ? loop->n - first : loop->grain;
        for (size_t i = 0; i < count; i++)
            loop->body(loop->context, first + i, worker);
    }
}

static void *run_worker(void *argument)
{
    struct worker *worker = argument;
    run_blocks(worker->loop, worker->id);
    return NULL;
}

/* The calling thread is worker 0, so the loop ends even if no thread can be started. */
static void run_workers(struct loop *loop, int jobs)
{
    struct worker *workers = arena_grow(NULL, (size_t)jobs * sizeof *workers);
    for (int i = 1; i < jobs; i++) {
        workers[i] = (struct worker){ .loop = loop, .id = i };
        workers[i].started = pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) == 0;
    }
    run_blocks(loop, 0);
    for (int i = 1; i < jobs; i++)
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
    free(workers);
}

void parallel_for(int jobs, size_t n, size_t grain,
                  void (*body)(void *context, size_t index, int worker), void *context)
{
    if (n == 0)
        return;
    /* A grain of at most n prevents an overflow of `next`, as each worker exceeds n at most
     * once. */
    if (grain < 1)
        grain = 1;
    if (grain > n)
        grain = n;
    size_t num_blocks = (n - 1) / grain + 1;
    if (jobs > 1 && (size_t)jobs > num_blocks)
        jobs = (int)num_blocks;
    struct loop loop = { .n = n, .grain = grain, .body = body, .context = context };
    if (jobs > 1)
        run_workers(&loop, jobs);
    else
        run_blocks(&loop, 0);
}
