/* exec/links.h - sockets between the members of one group, and bytes over several of them at once.
 *
 * The thread that calls moves the bytes itself, and sleeps in poll() while there are none to move.
 */
#ifndef EXEC_LINKS_H
#define EXEC_LINKS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

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
    double sent_bytes; /* so far */
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

struct transfer links_send(int member, const void *from, size_t bytes);
struct transfer links_receive(int member, void *to, size_t bytes);
/* All of them at once, in whatever order the peers are ready; returns when all are done. False when
 * a member was lost. */
bool links_exchange(struct links *links, struct transfer *transfers, int count,
                    struct lost_member *lost);

/* At least so many bytes, the same memory each time; valid until more are asked for. */
char *links_scratch(struct links *links, size_t bytes);

#endif
