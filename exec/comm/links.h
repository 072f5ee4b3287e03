/* exec/comm/links.h - sockets between the members of one group, and transfers over several sockets
 * at once.
 *
 * The calling thread moves the bytes itself and sleeps in poll() while no socket is ready. */
#ifndef EXEC_COMM_LINKS_H
#define EXEC_COMM_LINKS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

/* A transfer of bytes to or from one member. */
struct transfer {
    const char *from; /* the bytes to send; NULL: a receive */
    char *to;
    size_t left;
    int member;
};

struct links {
    int index, size;
    int *fds;                   /* owned; socket to each member, -1 for itself */
    struct transfer *transfers; /* space for one transfer each way with every member */
    struct pollfd *polls;
    char *scratch;
    size_t scratch_bytes;
    double sent_bytes; /* bytes sent so far */
};

/* The member that was lost during a call, and how. */
struct lost_member {
    int member;
    const char *reason; /* completes "rank 3 ..." */
};

/* The caller fills in `fds`. */
struct links links_new(int index, int size);
void links_release(struct links *links); /* closes the sockets */
/* May be called on any thread. All threads that wait on the links' sockets, here and on other
 * ranks, see a closed connection. */
void links_shut(const struct links *links);

struct transfer links_send(int member, const void *from, size_t bytes);
struct transfer links_receive(int member, void *to, size_t bytes);
/* Runs all transfers concurrently and returns when all are done. False when a member was lost. */
bool links_exchange(struct links *links, struct transfer *transfers, int count,
                    struct lost_member *lost);

/* At least `bytes` of scratch, the same memory each time; valid until a call asks for more. */
char *links_scratch(struct links *links, size_t bytes);

#endif
