/* exec/whereabouts.h - where a rank is, in words, for its watchdog.
 *
 * Each lane of its list is a lane of the watchdog, which is in an instruction from the moment its
 * stream comes to it; what was given to watchdog_enter is a text. One lane more is that of the
 * thread that issues: it waits for the whole. */
#ifndef EXEC_WHEREABOUTS_H
#define EXEC_WHEREABOUTS_H

#include "exec/rank.h"
#include "exec/watchdog.h"

enum { LANE_OF_ISSUER = NUM_LANES, NUM_WATCHED_LANES };

/* "RECV_ACT c1 mb7 from 1" for each instruction of the rank's list; its groups must be there. Does
 * nothing, as all below, when nobody watches. */
void whereabouts_name(struct rank *rank);

/* Around the issue of the list's instruction i, on its stream. Once communication has failed lanes
 * stay where they are, so that a report afterwards still tells it. */
void whereabouts_begin(struct rank *rank, struct stream *stream, int i);
void whereabouts_end(struct rank *rank, struct stream *stream, int i);

/* What the issuing thread waits for; `what` lives as long as the program. NULL: nothing. */
void whereabouts_wait(struct watchdog *watchdog, const char *what);

/* watchdog_options.describe */
void whereabouts_describe(void *context, int lane, const void *at, struct text *out);

#endif
