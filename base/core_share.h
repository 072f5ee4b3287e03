/* base/core_share.h - the fraction of its ready time in which a process had a core.
 *
 * For each thread, Linux counts the time that it ran and the time that it was ready but waited for
 * a core (schedstats.txt of the kernel: /proc/PID/task/TID/schedstat). A thread that waits for a
 * message is not ready, so waiting for other ranks does not lower the share. */
#ifndef BASE_CORE_SHARE_H
#define BASE_CORE_SHARE_H

#include <stdbool.h>

/* The counts of all threads of a process, since they began. */
struct core_time {
    double ran_s, ready_s; /* ready_s: time waiting for a core */
    double slices;         /* number of time slices */
    bool is_known;         /* false: the system has no such counts */
};

/* Reads the counts of this process, or those in a folder of threads ("/proc/self/task"). */
struct core_time core_time_now(void);
struct core_time core_time_read(const char *folder);

/* Returns a file descriptor from which any thread can read the calling thread's counts repeatedly;
 * -1 if the system has no such counts. The caller closes it. */
int core_time_open(void);
struct core_time core_time_of(int thread);

/* Seconds that threads waited for a core between two readings, minus the wake-up delay that also
 * occurs on a free core; 0 when unknown. */
double core_kept_s(const struct core_time *before, const struct core_time *after);

/* Estimates how long `wall_s` would have been without other programs on the cores: it subtracts the
 * time spent waiting for a core, but the result is at least the time that the process ran. */
double core_quiet_s(double wall_s, const struct core_time *before, const struct core_time *after);

/* The fraction of ready time with a core between two readings: 1 without other load, 0.5 when other
 * programs had half of the cores; negative when unknown. */
double core_share(const struct core_time *before, const struct core_time *after);

/* Below this share, measured times do not represent the machine's speed. */
extern const double quiet_core_share;

#endif
