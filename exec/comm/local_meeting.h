/* exec/comm/local_meeting.h - data that the ranks of a comm_local group share. The ranks are
 * threads.
 *
 * Each member publishes its call. When all have done so, each reads its data directly from the
 * other members' memory. Messages use mailboxes, one per sender and receiver. Only comm_local.c and
 * local_collective.c include it. */
#ifndef EXEC_COMM_LOCAL_MEETING_H
#define EXEC_COMM_LOCAL_MEETING_H

#include "exec/comm/comm.h"
#include "exec/comm/failure.h"

#include <pthread.h>

struct mailbox {
    const struct comm_call *sent;
    bool reading; /* whether the receiver is reading; the sender must then wait, even if the world
                     (all ranks) failed */
    bool taken;
};

struct meeting {
    struct local_world *world;
    struct meeting *next;
    int number; /* number of the group_new call that made this group */
    int *ranks, size;
    int num_members; /* groups that still refer to this meeting */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const struct comm_call **calls; /* one call per member */
    int num_come;
    unsigned round;
    struct mailbox *mailboxes; /* index: sender x size + receiver */
};

struct local_world {
    int size;
    pthread_mutex_t mutex; /* guards `meetings` */
    struct meeting *meetings;
    struct failure failure;
};

struct local_group {
    struct group base;
    struct meeting *meeting;
    double moved_bytes; /* bytes copied between members */
};

/* Records the failure and wakes all waiting ranks. Must not be called under a meeting's mutex. */
void local_world_fail(struct local_world *world, const struct err *err);

/* The meeting of a group, shared by all members and freed when the last leaves. `number` is the
 * number of the rank's earlier group_new calls. */
struct meeting *meeting_join(struct local_world *world, int number, const int *ranks, int size);
void meeting_leave(struct meeting *meeting);

bool meeting_has_failed(const struct meeting *meeting);

#endif
