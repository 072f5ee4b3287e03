#define _GNU_SOURCE // MAP_ANONYMOUS, MAP_NORESERVE; NOLINT(bugprone-reserved-identifier)
#include "tests/cuda_on_host/hollow.h"

#include "base/clock.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* Approximate rates of an H200. */
static const double flops_per_s = 7e14, bytes_per_s = 4e12, launch_s = 2e-6;
enum { BYTES_OF_A_THREAD = 48 };

/* Copies up to this size are real, as hosts read tokens, numbers and progress words. */
enum { MOST_REAL_BYTES = 1 << 20 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_on;

static void ask(void)
{
    const char *given = getenv("SIMSEARCH_HOLLOW_GPUS");
    is_on = given && strcmp(given, "1") == 0;
}

bool hollow_is_on(void)
{
    pthread_once(&once, ask);
    return is_on;
}

/* --- time --------------------------------------------------------------------------------- */

static __thread double busy_until_s;

double hollow_now_s(void)
{
    return fmax(clock_now_s(), busy_until_s);
}

static void sleep_s(double seconds)
{
    struct timespec pause = { .tv_sec = (time_t)seconds,
                              .tv_nsec = (long)(1e9 * (seconds - floor(seconds))) };
    nanosleep(&pause, NULL);
}

/* Takes some time on the stream. A pause is always slightly too long, so the stream's clock may run
 * ahead. */
static void take(double seconds)
{
    static const double longest_ahead_s = 2e-3;
    busy_until_s = hollow_now_s() + seconds;
    double ahead_s = busy_until_s - clock_now_s();
    if (ahead_s > longest_ahead_s)
        sleep_s(ahead_s - longest_ahead_s / 2);
}

void hollow_rest(void)
{
    double ahead_s = busy_until_s - clock_now_s();
    if (ahead_s > 0)
        sleep_s(ahead_s);
}

void hollow_kernel(double num_threads)
{
    take(launch_s + num_threads * BYTES_OF_A_THREAD / bytes_per_s);
}

void hollow_product(double num_flops)
{
    take(launch_s + num_flops / flops_per_s);
}

bool hollow_copy(size_t bytes)
{
    if (!hollow_is_on() || bytes <= MOST_REAL_BYTES)
        return false;
    take(launch_s + (double)bytes / bytes_per_s);
    return true;
}

/* --- memory ------------------------------------------------------------------------------- */

enum { PAGE_BYTES = 4096 }; /* the first page stores the number of pages */

void *hollow_alloc(size_t bytes)
{
    size_t all = bytes + PAGE_BYTES;
    char *memory =
        mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    memcpy(memory, &all, sizeof all);
    return memory + PAGE_BYTES;
}

void hollow_free(void *memory)
{
    size_t all;
    if (!memory)
        return;
    char *begin = (char *)memory - PAGE_BYTES;
    memcpy(&all, begin, sizeof all);
    munmap(begin, all);
}
