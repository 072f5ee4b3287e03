/* exec/comm/links.h - sockets between the members of one group, and bytes over several of them at
 * once.
 *
 * The calling thread moves the bytes itself, and sleeps in poll() while there are none to move. */
#ifndef EXEC_COMM_LINKS_H
#define EXEC_COMM_LINKS_H

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
    int *fds;                   /* owned; socket to each member, -1 for itself */
    struct transfer *transfers; /* room for one transfer each way with every member */
    struct pollfd *polls;
    char *scratch;
    size_t scratch_bytes;
    double sent_bytes; /* so far */
};

/* The member that was lost during a call, and how. */
struct lost_member {
    int member;
    const char *reason; /* completes "rank 3 ..." */
};

/* The caller fills in fds. */
struct links links_new(int index, int size);
void links_release(struct links *links); /* closes them */
/* Any thread: everyone waiting, here and at the other ends, sees the connection closed. */
void links_shut(const struct links *links);

struct transfer links_send(int member, const void *from, size_t bytes);
struct transfer links_receive(int member, void *to, size_t bytes);
/* Runs all transfers at once, in any order the peers are ready; returns when all are done. False
 * when a member was lost. */
bool links_exchange(struct links *links, struct transfer *transfers, int count,
                    struct lost_member *lost);

/* At least `bytes` of scratch, the same memory each time; valid until a call asks for more. */
char *links_scratch(struct links *links, size_t bytes);

#endif
