/* exec/local_meeting.h - where ranks that are threads meet: what the groups of comm_local share.
 *
 * Each member lays down its call, and when all have, each reads what it needs straight out of the
 * others' memory. Messages meet in pairs, one way each. Only comm_local.c and local_collective.c
 * include it. */
#ifndef EXEC_LOCAL_MEETING_H
#define EXEC_LOCAL_MEETING_H

#include "exec/comm.h"
#include "exec/failure.h"

#include <pthread.h>

struct mailbox {
    const struct comm_call *sent;
    bool reading; /* its receiver is at it: the sender may not leave, even when the world failed */
    bool taken;
};

struct meeting {
    struct local_world *world;
    struct meeting *next;
    int number; /* of the group_new that made it */
    int *ranks, size;
    int num_members; /* groups that still point here */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const struct comm_call **calls; /* one each */
    int num_come;
    unsigned round;
    struct mailbox *mailboxes; /* from x size + to */
};

struct local_world {
    int size;
    pthread_mutex_t mutex; /* of `meetings` */
    struct meeting *meetings;
    struct failure failure;
};

struct local_group {
    struct group base;
    struct meeting *meeting;
    double moved_bytes; /* out of and into others' memory */
};

/* Everyone who waits is woken. Not under a meeting's mutex. */
void local_world_fail(struct local_world *world, const struct err *err);

/* One for all members of the group, gone when the last has left it. `number`: of the group_new that
 * asks, as a rank counts them. */
struct meeting *meeting_join(struct local_world *world, int number, const int *ranks, int size);
void meeting_leave(struct meeting *meeting);

bool meeting_has_failed(const struct meeting *meeting);

#endif
