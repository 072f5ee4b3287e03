/* exec/comm/local_meeting.h - how ranks that are threads exchange data: what the groups of
 * comm_local share.
 *
 * Each member deposits its call; when all have, each reads what it needs directly from the others'
 * memory. Messages use mailboxes, one per sender and receiver. Only comm_local.c and
 * local_collective.c include it. */
#ifndef EXEC_COMM_LOCAL_MEETING_H
#define EXEC_COMM_LOCAL_MEETING_H

#include "exec/comm/comm.h"
#include "exec/comm/failure.h"

#include <pthread.h>

struct mailbox {
    const struct comm_call *sent;
    bool reading; /* its receiver is reading: the sender must not leave, even when the world failed
                   */
    bool taken;
};

struct meeting {
    struct local_world *world;
    struct meeting *next;
    int number; /* number of the group_new call that made it */
    int *ranks, size;
    int num_members; /* groups that still refer to it */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const struct comm_call **calls; /* one each */
    int num_come;
    unsigned round;
    struct mailbox *mailboxes; /* index: from x size + to */
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

/* Records the failure and wakes all waiting ranks. Must not be called under a meeting's mutex. */
void local_world_fail(struct local_world *world, const struct err *err);

/* The meeting of a group, shared by all members and freed when the last leaves. `number`: how many
 * group_new calls the rank has made before. */
struct meeting *meeting_join(struct local_world *world, int number, const int *ranks, int size);
void meeting_leave(struct meeting *meeting);

bool meeting_has_failed(const struct meeting *meeting);

#endif
