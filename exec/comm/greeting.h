/* exec/comm/greeting.h - the first bytes on a connection between ranks, which decide who is
 * admitted.
 *
 * All callers are served concurrently: one that sends nothing, too little or something wrong is
 * rejected and delays nobody. A greeting proves that its sender knows the run's token, which is
 * sent unencrypted. Only one thread may call these functions. */
#ifndef EXEC_COMM_GREETING_H
#define EXEC_COMM_GREETING_H

#include "exec/comm/place.h"
#include "exec/comm/socket.h"

#include <stdint.h>

/* Ranks run the same program on the same kind of machine, so the struct is sent as it is in memory;
 * `magic` checks that. */
struct greeting {
    uint64_t magic;
    char token[PLACE_TOKEN_BYTES]; /* zeros after its end */
    int32_t number;                /* the number given to mesh_connect, or AT_MEETING */
    int32_t rank, size;
    int32_t port; /* where the rank listens */
};
enum { AT_MEETING = -1 };

struct greeting greeting_of(const struct place *place, int number, int port);

/* Rank 0's reply to a rank that reports its address. The table of all ranks' addresses follows
 * it. */
enum verdict { VERDICT_WELCOME, VERDICT_OTHER_TOKEN, VERDICT_OTHER_SIZE, VERDICT_TAKEN };
struct reply {
    uint64_t magic;
    int32_t verdict, size;
};
bool greeting_reply(int fd, enum verdict verdict, int size, struct socket_limit limit,
                    struct err *err);
/* Waits for rank 0's reply. False with ERR_SYSTEM when the connection fails, with ERR_INPUT and the
 * reason when rank 0 refuses. */
bool greeting_hear_reply(int fd, int size, struct socket_limit limit, struct err *err);

struct caller {
    int fd;
    double came_s;
    size_t heard; /* bytes of the greeting received so far */
    struct greeting greeting;
};

/* A listening socket and its unfinished callers, oldest first. */
enum { MOST_CALLERS = 64 };
struct entrance {
    int listener; /* listening socket, closed by entrance_close; -1: none */
    const struct place *place;
    struct caller callers[MOST_CALLERS];
    int num_callers;
};
void entrance_close(struct entrance *entrance);

/* Returns the next connection from another rank of this run, to be closed by the caller; -1 with
 * ERR_SYSTEM when none arrives within the limit. */
int entrance_next(struct entrance *entrance, struct socket_limit limit, struct greeting *greeting,
                  struct err *err);

#endif
