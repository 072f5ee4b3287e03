/* exec/run/whereabouts.h - where a rank is, in words, for its watchdog.
 *
 * Each lane of its list is a lane of the watchdog, which is in an instruction from the moment its
 * stream comes to it; what was given to watchdog_enter is a text. Streams write where they are to
 * memory that the watchdog looks at, so that none stops for it. One lane more is that of the thread
 * that issues: it waits for the whole. */
#ifndef EXEC_RUN_WHEREABOUTS_H
#define EXEC_RUN_WHEREABOUTS_H

#include "exec/run/rank.h"
#include "exec/watchdog.h"

enum { LANE_OF_ISSUER = NUM_LANES, NUM_WATCHED_LANES };

/* Names the instructions of the rank's list ("RECV_ACT c1 mb7 from 1"), whose groups must be there,
 * and has the watchdog look for what its streams come to; False with err. Does nothing, as all
 * below, when nobody watches. */
bool whereabouts_open(struct rank *rank, struct err *err);
void whereabouts_close(struct rank *rank); /* its streams are gone */

/* Around the issue of the list's instruction i, on its stream. */
void whereabouts_begin(struct rank *rank, struct stream *stream, int i);
void whereabouts_end(struct rank *rank, struct stream *stream, int i);

/* What the issuing thread waits for; `what` lives as long as the program. NULL: nothing. */
void whereabouts_wait(struct watchdog *watchdog, const char *what);

/* watchdog_options.describe */
void whereabouts_describe(void *context, int lane, const void *at, struct text *out);

#endif
