/* sim/schedule/timeline.h - when each instruction of a schedule ran: predicted or measured alike.
 *
 * Whoever joins two timelines of one schedule compares them instruction by instruction. */
#ifndef SIM_SCHEDULE_TIMELINE_H
#define SIM_SCHEDULE_TIMELINE_H

#include "base/arena.h"
#include "sim/schedule/schedule.h"

#include <stdbool.h>

struct interval {
    double start_s, end_s; /* since the step began */
};

/* ranks[rank][instr] is that of schedule->ranks[rank].at[instr]. */
struct timeline {
    const struct schedule *schedule; /* borrowed */
    struct interval **ranks;
};

/* In the arena, every interval empty at 0. */
struct timeline *timeline_new(const struct schedule *schedule, struct arena *arena);

double timeline_end_s(const struct timeline *timeline); /* of the last instruction of all ranks */

/* The longest time that a rank has from its first pass to its last instruction: how far apart steps
 * are when each rank begins the next after its own. */
double timeline_own_s(const struct timeline *timeline);

/* Seconds in which a lane of a rank runs an instruction: what it does not is idle. */
double timeline_busy_s(const struct timeline *timeline, int rank, enum lane lane);

/* Forward, backward, its halves and recompute: what a pipeline's picture shows. */
bool timeline_is_pass(enum opcode op);

/* From the first pass of all ranks to the last. */
struct interval timeline_passes(const struct timeline *timeline);

/* Whether no lane runs two instructions at a time or out of order, and none before what it is
 * `after`, to within `slack_s` (measured clocks err): where = "stage S, instruction I". */
bool timeline_check(const struct timeline *timeline, double slack_s, struct err *err);

#endif
