/* exec/watchdog.h - reports where a run hangs, and ends it.
 *
 * Every lane (in-order queue of instructions) of a rank reports the instruction that it enters.
 * When some lane is busy and no lane has moved on within the limit, or when SIGTERM arrives, the
 * watchdog reports the instruction of each lane ("rank 5 waits RECV_ACT c1 mb7 from 1") on standard
 * error and in the status file, then stops the run. Time during which the process itself was
 * stopped does not count. */
#ifndef EXEC_WATCHDOG_H
#define EXEC_WATCHDOG_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>

enum { WATCHDOG_EXIT = 75 }; /* exit code of a run that was interrupted and can be resumed */

struct watchdog_options {
    int rank, num_lanes;
    double limit_s;          /* 0: only SIGTERM */
    const char *status_path; /* file that the report is also written to; NULL: none */
    /* Appends a description of a lane's instruction, without a newline. Called on the watchdog's
     * thread with the pointer given to watchdog_enter, which must still be valid. */
    void (*describe)(void *context, int lane, const void *at, struct text *out);
    /* Aborts communicators and device, so that all waits return. Called on a separate thread. */
    void (*stop)(void *context);
    void *context;
    double grace_s; /* time limit for `stop`, then again for the run to end; after both the watchdog
                       calls _exit(WATCHDOG_EXIT) */
};

struct watchdog;

/* Call it before the process has other threads, as they must inherit the blocked SIGTERM, which
 * only the watchdog receives. The options are copied. NULL with ERR_SYSTEM. */
struct watchdog *watchdog_new(const struct watchdog_options *options, struct err *err);
/* Ends the watchdog: it reports nothing, stops nothing and no longer calls `look`. Accepts NULL. */
void watchdog_end(struct watchdog *watchdog);
void watchdog_free(struct watchdog *watchdog); /* calls watchdog_end; accepts NULL */

/* Records that the lane enters `at`; NULL: the lane is idle. Only one thread at a time may call it
 * for a lane. */
void watchdog_enter(struct watchdog *watchdog, int lane, const void *at);

/* For lanes that do not report by themselves: the watchdog calls `look` before it reads the lanes,
 * and `look` enters their instructions. It is called on any thread, one call at a time. NULL: no
 * more calls. */
void watchdog_look_with(struct watchdog *watchdog, void (*look)(void *context), void *context);
/* Calls `look` a last time; its lanes keep their last state. May be called on any thread. */
void watchdog_look_last(struct watchdog *watchdog);

/* Reports the instruction of each lane at once, for example when a communicator failed. May be
 * called on any thread. */
void watchdog_report(struct watchdog *watchdog, const char *reason);

/* Whether the watchdog stopped the run; if so, err has the reason (ERR_SYSTEM, where = "rank
 * R"). */
bool watchdog_has_fired(struct watchdog *watchdog, struct err *err);

#endif
