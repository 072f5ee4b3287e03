/* exec/comm/tcp_collective.h - the calls of exec/comm/comm.h over a group's sockets.
 *
 * Large fp32 and fp64 messages go around a ring, others directly to all members, and small sums via
 * a few members. All members together send as many bytes as the sum of comm_least_sent_bytes over
 * the members; barriers send one byte each way. */
#ifndef EXEC_COMM_TCP_COLLECTIVE_H
#define EXEC_COMM_TCP_COLLECTIVE_H

#include "exec/comm/comm.h"
#include "exec/comm/links.h"

/* Returns when the call has run. False when a member was lost. */
bool tcp_collective_run(struct links *links, const struct comm_call *call,
                        struct lost_member *lost);

#endif
