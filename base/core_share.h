/* base/core_share.h - the share of a core that a process got while it wanted one.
 *
 * Linux counts for each thread how long it ran and how long it was ready and no core was free
 * (schedstats.txt of the kernel: /proc/PID/task/TID/schedstat). A thread that waits for a message
 * is not ready, so a rank that waits for its peers loses nothing here. */
#ifndef BASE_CORE_SHARE_H
#define BASE_CORE_SHARE_H

#include <stdbool.h>

/* The counts of all threads of a process, since they began. */
struct core_time {
    double ran_s, ready_s; /* ready: wanted a core and had none */
    double slices;         /* times that a core was given */
    bool is_known;         /* false: the system has no such counts */
};

/* Reads the counts of this process, or those in a folder of threads ("/proc/self/task"). */
struct core_time core_time_now(void);
struct core_time core_time_read(const char *folder);

/* The calling thread's counts, to be read again and again from any thread: a file descriptor that
 * the caller closes; -1 where the system has no such counts. */
int core_time_open(void);
struct core_time core_time_of(int thread);

/* Seconds that threads waited for a core between two readings, minus the wake-up delay that a free
 * core has too; 0 when unknown. */
double core_kept_s(const struct core_time *before, const struct core_time *after);

/* What `wall_s` would have been on cores of the process's own: minus the wait for a core, but no
 * less than the time it ran. */
double core_quiet_s(double wall_s, const struct core_time *before, const struct core_time *after);

/* The share of a core between two readings: 1 when nobody else wanted the cores, 0.5 when others
 * had half; negative when unknown. */
double core_share(const struct core_time *before, const struct core_time *after);

/* Below this share of a core, measured times do not show the machine's own speed. */
extern const double quiet_core_share;

#endif
