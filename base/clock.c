#include "base/clock.h"

#include <time.h>

static double read_s(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clock_now_s(void)
{
    return read_s(CLOCK_MONOTONIC);
}

double clock_thread_s(void)
{
    return read_s(CLOCK_THREAD_CPUTIME_ID);
}
