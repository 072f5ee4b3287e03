/* exec/links.h - sockets between the members of one group, and the collectives over them.
 *
 * The thread that calls moves the bytes itself, and sleeps in poll() while there are none to move.
 * Large fp32 and fp64 messages go round a ring, others to all members at once. */
#ifndef EXEC_LINKS_H
#define EXEC_LINKS_H

#include "exec/comm.h"

#include <poll.h>

/* Bytes on their way to or from one member. */
struct transfer {
    const char *from; /* sent from here; NULL: received */
    char *to;
    size_t left;
    int member;
};

struct links {
    int index, size;
    int *fds;                   /* owned; to each member, -1 to oneself */
    struct transfer *transfers; /* room for one each way with every member */
    struct pollfd *polls;
    char *scratch;
    size_t scratch_bytes;
};

/* Who went away in the middle of a call, and how. */
struct lost_member {
    int member;
    const char *reason; /* completes "rank 3 ..." */
};

/* fds are still to be filled in. */
struct links links_new(int index, int size);
void links_release(struct links *links); /* closes them */
/* Any thread: whoever waits, here and at the other ends, finds the connection closed. */
void links_shut(const struct links *links);
/* Until the call has run. False when a member was lost. */
bool links_run(struct links *links, const struct comm_call *call, struct lost_member *lost);

#endif
