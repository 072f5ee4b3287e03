/* exec/watchdog.h - reports where a run hangs, and ends it.
 *
 * Every lane of a rank reports the instruction that it enters. When some lane is busy and no lane
 * has moved on within the limit, or when SIGTERM arrives, the watchdog reports what each lane is in
 * ("rank 5 waits RECV_ACT c1 mb7 from 1") on standard error and in the status file, then stops the
 * run. Time during which the process itself was stopped does not count. */
#ifndef EXEC_WATCHDOG_H
#define EXEC_WATCHDOG_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>

enum { WATCHDOG_EXIT = 75 }; /* the run was interrupted and can be resumed */

struct watchdog_options {
    int rank, num_lanes;
    double limit_s;          /* 0: only SIGTERM */
    const char *status_path; /* written when it reports; NULL: none */
    /* Adds a text of what a lane is in, without a newline. Called on the watchdog's thread with the
     * pointer given to watchdog_enter, which must still be valid. */
    void (*describe)(void *context, int lane, const void *at, struct text *out);
    /* Aborts communicators and device, so that all waits return. Called on a separate thread. */
    void (*stop)(void *context);
    void *context;
    double grace_s; /* time for `stop`, and again for the run to end; then _exit(WATCHDOG_EXIT) */
};

struct watchdog;

/* Call it before the process has other threads: they inherit the blocked SIGTERM, which only the
 * watchdog receives. The options are copied. NULL with ERR_SYSTEM. */
struct watchdog *watchdog_new(const struct watchdog_options *options, struct err *err);
/* From then on it reports nothing by itself, stops nothing and calls no `look`. Accepts NULL. */
void watchdog_end(struct watchdog *watchdog);
void watchdog_free(struct watchdog *watchdog); /* ends it; accepts NULL */

/* The lane enters `at`; NULL: it is idle. One thread at a time per lane. */
void watchdog_enter(struct watchdog *watchdog, int lane, const void *at);

/* For lanes that do not report by themselves: `look` is called before lanes are read and enters
 * what they are in; on any thread, one call at a time. NULL: not called from then on. */
void watchdog_look_with(struct watchdog *watchdog, void (*look)(void *context), void *context);
/* Calls `look` once more and never again: such lanes keep their last state. Any thread. */
void watchdog_look_last(struct watchdog *watchdog);

/* Reports at once what each lane is in, for example when a communicator failed. Any thread. */
void watchdog_report(struct watchdog *watchdog, const char *reason);

/* Whether it stopped the run; if so, err says why (ERR_SYSTEM, where = "rank R"). */
bool watchdog_has_fired(struct watchdog *watchdog, struct err *err);

#endif
