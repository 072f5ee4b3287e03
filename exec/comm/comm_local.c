/* The communicator between threads of one process. */
#include "exec/comm/comm.h"

#include "base/arena.h"
#include "exec/comm/local_collective.h"
#include "exec/comm/local_meeting.h"

#include <stdio.h>
#include <stdlib.h>

struct comm {
    struct local_world *world;
    const struct device_api *device;
    int rank;
    int num_groups; /* number of group_new calls so far */
};

static struct comm *local_open(const struct comm_options *options, struct err *err)
{
    (void)err;
    struct comm *comm = arena_grow(NULL, sizeof *comm);
    *comm = (struct comm){ .world = options->local_world,
                           .device = options->device,
                           .rank = options->place->rank };
    return comm;
}

static void local_close(struct comm *comm)
{
    free(comm);
}

static struct group *local_group_new(struct comm *comm, const int *ranks, int num_ranks,
                                     struct err *err)
{
    (void)err;
    int number = comm->num_groups++;
    if (num_ranks == 0)
        return NULL;
    struct meeting *meeting = meeting_join(comm->world, number, ranks, num_ranks);
    struct local_group *group = arena_grow(NULL, sizeof *group);
    *group = (struct local_group){ .meeting = meeting,
                                   .base = { .comm = comm,
                                             .index = group_index_of(comm->rank, ranks, num_ranks),
                                             .size = num_ranks,
                                             .ranks = meeting->ranks } };
    return &group->base;
}

static void local_group_free(struct group *base)
{
    if (!base)
        return;
    meeting_leave(((struct local_group *)base)->meeting);
    free(base);
}

static void run_call(void *args)
{
    local_collective_run(args);
}

static double local_sent_bytes(const struct group *group)
{
    return ((const struct local_group *)group)->moved_bytes;
}

static void local_issue(const struct comm_call *call)
{
    call->group->comm->device->call(call->stream, run_call, call, sizeof *call);
}

static bool local_poll(struct comm *comm, struct err *err)
{
    return failure_check(&comm->world->failure, err);
}

static void local_abort(struct comm *comm)
{
    struct err err = { 0 };
    char where[24];
    snprintf(where, sizeof where, "rank %d", comm->rank);
    err_set(&err, ERR_SYSTEM, where, "communication was stopped");
    local_world_fail(comm->world, &err);
}

const struct comm_api comm_local = {
    .name = "local",
    .device = "host",
    .open = local_open,
    .close = local_close,
    .group_new = local_group_new,
    .group_free = local_group_free,
    .issue = local_issue,
    .sent_bytes = local_sent_bytes,
    .poll = local_poll,
    .abort = local_abort,
};
