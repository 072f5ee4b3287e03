/* sim/schedule/timeline.h - when each instruction of a schedule ran: predicted or measured alike.
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

/* In the arena, with every interval empty at 0. */
struct timeline *timeline_new(const struct schedule *schedule, struct arena *arena);

double timeline_end_s(const struct timeline *timeline); /* of the last instruction of all ranks */

/* The longest time of any rank from its first pass to its last instruction: the step time when each
 * rank starts the next step right after its own. */
double timeline_own_s(const struct timeline *timeline);

/* Seconds in which a lane of a rank runs instructions; the rest is idle. */
double timeline_busy_s(const struct timeline *timeline, int rank, enum lane lane);

/* Forward, backward, its halves and recompute: what a pipeline's picture shows. */
bool timeline_is_pass(enum opcode op);

/* From the first pass of all ranks to the last. */
struct interval timeline_passes(const struct timeline *timeline);

/* Whether lanes run one instruction at a time, in order, and none before its `after`, to within
 * `slack_s` for clock error: where = "stage S, instruction I". */
bool timeline_check(const struct timeline *timeline, double slack_s, struct err *err);

#endif
