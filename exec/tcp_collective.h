/* exec/tcp_collective.h - the calls of exec/comm.h over a group's sockets.
 *
 * Large fp32 and fp64 messages go round a ring, others to all members at once, small sums by way of
 * a few. All members together send what comm_least_sent_bytes has, and a byte each way in barriers.
 */
#ifndef EXEC_TCP_COLLECTIVE_H
#define EXEC_TCP_COLLECTIVE_H

#include "exec/comm.h"
#include "exec/links.h"

/* Until the call has run. False when a member was lost. */
bool tcp_collective_run(struct links *links, const struct comm_call *call,
                        struct lost_member *lost);

#endif
