/* sim/schedule/timeline.h - when each instruction of a schedule ran, predicted or measured.
 *
 * Two timelines of one schedule can be compared instruction by instruction. */
#ifndef SIM_SCHEDULE_TIMELINE_H
#define SIM_SCHEDULE_TIMELINE_H

#include "base/arena.h"
#include "sim/schedule/schedule.h"

#include <stdbool.h>

struct interval {
    double start_s, end_s; /* since the step began */
};

/* ranks[rank][instr] is the interval of schedule->ranks[rank].at[instr]. */
struct timeline {
    const struct schedule *schedule; /* borrowed */
    struct interval **ranks;
};

/* The timeline is in the arena; every interval begins and ends at 0. */
struct timeline *timeline_new(const struct schedule *schedule, struct arena *arena);

/* end of the last instruction on any rank */
double timeline_end_s(const struct timeline *timeline);

/* The longest time of any rank from its first pass to its last instruction. This is the step time
 * if each rank starts the next step as soon as it has finished this one. */
double timeline_own_s(const struct timeline *timeline);

/* Seconds in which a lane (in-order queue) of a rank runs instructions; the rest is idle. */
double timeline_busy_s(const struct timeline *timeline, int rank, enum lane lane);

/* Whether the opcode is a forward, a backward, a half of a backward or recompute. */
bool timeline_is_pass(enum opcode op);

/* The interval from the start of the first pass on any rank to the end of the last. */
struct interval timeline_passes(const struct timeline *timeline);

/* Checks that each lane runs one instruction at a time, in order, and that no instruction starts
 * before its `after` has ended. Clock errors up to `slack_s` are allowed. An error's `where` is
 * "stage S, instruction I". */
bool timeline_check(const struct timeline *timeline, double slack_s, struct err *err);

#endif
