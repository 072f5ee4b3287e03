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

/* Between two times: 1 when nobody else wanted the cores, 0.5 when half was others'; negative when
 * it is not known. */
double core_share(const struct core_time *before, const struct core_time *after);

/* Below this others had so much that what was timed is not the machine's own speed. */
extern const double quiet_core_share;

#endif
