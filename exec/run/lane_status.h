/* exec/run/lane_status.h - reports to a rank's watchdog which instruction each lane is executing.
 *
 * A lane is the sequence of a rank's instructions that run on one stream. The watchdog has a lane
 * for each of them, and one for the thread that issues instructions. A lane enters an instruction
 * when its stream reaches it. Streams write their position to memory that the watchdog reads, so no
 * stream waits. The pointer that a lane passes to watchdog_enter is a text that describes what it
 * waits for. */
#ifndef EXEC_RUN_LANE_STATUS_H
#define EXEC_RUN_LANE_STATUS_H

#include "exec/watchdog.h"
#include "sim/schedule/instr.h"

struct rank;
struct stream;

enum { LANE_OF_ISSUER = NUM_ALL_LANES, NUM_WATCHED_LANES };

/* Names the instructions of the rank's list ("RECV_ACT c1 mb7 from 1"), and makes the watchdog read
 * the streams' positions. The rank's groups must exist. Returns false with err. Like all functions
 * below, it does nothing without a watchdog. */
bool lane_status_open(struct rank *rank, struct err *err);
void lane_status_close(struct rank *rank); /* call after the rank's streams are freed */

/* Call these around the issue of the list's instruction i on its stream. */
void lane_status_begin(struct rank *rank, struct stream *stream, int i);
void lane_status_end(struct rank *rank, struct stream *stream, int i);

/* Sets what the issuing thread waits for; `what` must live as long as the program. NULL: nothing.
 */
void lane_status_wait(struct watchdog *watchdog, const char *what);

/* Implements watchdog_options.describe. */
void lane_status_describe(void *context, int lane, const void *at, struct text *out);

#endif
