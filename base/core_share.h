/* base/core_share.h - how much of a core a process got while it wanted one.
 *
 * Linux counts for each thread how long it ran and how long it was ready and no core was free
 * (schedstats.txt of the kernel: /proc/PID/task/TID/schedstat). Who waits for a message is not
 * ready, so a rank that waits for its peers loses nothing here. */
#ifndef BASE_CORE_SHARE_H
#define BASE_CORE_SHARE_H

#include <stdbool.h>

/* Of all threads of a process, since they began. */
struct core_time {
    double ran_s, ready_s; /* ready: wanted a core and had none */
    double slices;         /* times that a core was given */
    bool is_known;         /* false: the system does not tell */
};

/* Of this process, or by the folder of its threads ("/proc/self/task"). */
struct core_time core_time_now(void);
struct core_time core_time_read(const char *folder);

/* The calling thread's counts, to be read again and again from any thread: a file descriptor that
 * the caller closes; -1 where the system does not tell. */
int core_time_open(void);
struct core_time core_time_of(int thread);

/* Seconds between two times without a core, beyond what waking takes on a free one; 0 when it is
 * not known. */
double core_kept_s(const struct core_time *before, const struct core_time *after);

/* What `wall_s` of a process that computes by itself would have been on cores of its own: less what
 * it was kept, but no less than it ran. */
double core_quiet_s(double wall_s, const struct core_time *before, const struct core_time *after);

/* Between two times: 1 when nobody else wanted the cores, 0.5 when half was others'; negative when
 * it is not known. */
double core_share(const struct core_time *before, const struct core_time *after);

/* Below this others had so much that what was timed is not the machine's own speed. */
extern const double quiet_core_share;

#endif
