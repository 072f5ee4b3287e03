/* exec/watchdog.h - a run that stands still says where, and ends.
 *
 * Every lane of a rank tells what it enters. When a lane is in something and none of them moved on
 * for the limit, or when the rank is asked to end by SIGTERM, the watchdog reports what each lane
 * is in ("rank 5 waits RECV_ACT c1 mb7 from 1"), on standard error and in the status file, then
 * stops the run. Time in which the process itself was stopped does not count. */
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
    /* Adds what a lane is in, without a line's end. From the watchdog's thread, with what
     * watchdog_enter was given; it must still be there. */
    void (*describe)(void *context, int lane, const void *at, struct text *out);
    /* Aborts communicators and device, so that whoever waits returns. From a thread of its own. */
    void (*stop)(void *context);
    void *context;
    double grace_s; /* for `stop`, and then for the run's own end; else _exit(WATCHDOG_EXIT) */
};

struct watchdog;

/* Before any other thread of the process: from here on they inherit that SIGTERM is blocked, and
 * the watchdog alone takes it. The options are copied. NULL with ERR_SYSTEM. */
struct watchdog *watchdog_new(const struct watchdog_options *options, struct err *err);
/* From here on it reports nothing by itself, stops nothing and looks at nothing. Accepts NULL. */
void watchdog_end(struct watchdog *watchdog);
void watchdog_free(struct watchdog *watchdog); /* ends it; accepts NULL */

/* The lane begins `at`; NULL: it has nothing to do. One thread at a time for each lane. */
void watchdog_enter(struct watchdog *watchdog, int lane, const void *at);

/* For lanes that do not tell what they come to: `look` enters it, whenever lanes are to be read, on
 * any thread, one at a time. NULL: from here on it is not called. */
void watchdog_look_with(struct watchdog *watchdog, void (*look)(void *context), void *context);
/* Looks now and never again: such lanes stay where they are. Any thread. */
void watchdog_look_last(struct watchdog *watchdog);

/* Reports now what each lane is in: when a communicator failed, say. Any thread. */
void watchdog_report(struct watchdog *watchdog, const char *reason);

/* Whether it stopped the run; then err says why (ERR_SYSTEM, where = "rank R"). */
bool watchdog_has_fired(struct watchdog *watchdog, struct err *err);

#endif
