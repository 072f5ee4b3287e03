/* The communicator between processes over TCP. */
#include "exec/comm/comm.h"

#include "base/arena.h"
#include "exec/comm/failure.h"
#include "exec/comm/links.h"
#include "exec/comm/mesh.h"
#include "exec/comm/tcp_collective.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Each group has its own sockets, so groups never wait for one another; the stream's thread moves
 * the bytes. */
struct comm {
    int rank;
    char where[24]; /* "rank 3", for error messages */
    const struct device_api *device;
    struct mesh *mesh;
    int num_groups;
    pthread_mutex_t mutex; /* guards `groups` */
    struct tcp_group *groups;
    struct failure failure;
};

struct tcp_group {
    struct group base;
    struct tcp_group *next;
    struct links links;
};

/* Closes the connections, by which the other ranks notice the failure. */
static void fail_comm(struct comm *comm, const struct err *err)
{
    failure_keep(&comm->failure, err);
    pthread_mutex_lock(&comm->mutex);
    for (struct tcp_group *group = comm->groups; group; group = group->next)
        links_shut(&group->links);
    pthread_mutex_unlock(&comm->mutex);
}

static void run_call(void *args)
{
    const struct comm_call *call = args;
    struct tcp_group *group = (struct tcp_group *)call->group;
    struct comm *comm = call->group->comm;
    struct lost_member lost;
    if (failure_is_kept(&comm->failure) || tcp_collective_run(&group->links, call, &lost))
        return;
    struct err err = { 0 };
    err_set(&err, ERR_SYSTEM, comm->where, "rank %d %s", group->base.ranks[lost.member],
            lost.reason);
    fail_comm(comm, &err);
}

static void tcp_issue(const struct comm_call *call)
{
    call->group->comm->device->call(call->stream, run_call, call, sizeof *call);
}

static double tcp_sent_bytes(const struct group *group)
{
    return ((const struct tcp_group *)group)->links.sent_bytes;
}

static void tcp_close(struct comm *comm)
{
    if (!comm)
        return;
    assert(!comm->groups && "groups must be freed before their communicator");
    mesh_free(comm->mesh);
    pthread_mutex_destroy(&comm->mutex);
    failure_release(&comm->failure);
    free(comm);
}

static struct comm *tcp_open(const struct comm_options *options, struct err *err)
{
    struct comm *comm = arena_grow(NULL, sizeof *comm);
    *comm = (struct comm){ .rank = options->place->rank, .device = options->device };
    snprintf(comm->where, sizeof comm->where, "rank %d", comm->rank);
    pthread_mutex_init(&comm->mutex, NULL);
    failure_init(&comm->failure);
    failure_listen(&comm->failure, &options->listener);
    bool is_lost;
    comm->mesh = mesh_new(options, &is_lost, err);
    if (comm->mesh)
        return comm;
    if (is_lost)
        failure_keep(&comm->failure, err);
    tcp_close(comm);
    return NULL;
}

static void release_group(struct tcp_group *group)
{
    links_release(&group->links);
    group_release(&group->base);
    free(group);
}

static struct group *tcp_group_new(struct comm *comm, const int *ranks, int num_ranks,
                                   struct err *err)
{
    int number = comm->num_groups++;
    if (num_ranks == 0)
        return NULL;
    struct tcp_group *group = arena_grow(NULL, sizeof *group);
    *group = (struct tcp_group){ .base = group_of(comm, comm->rank, ranks, num_ranks) };
    group->links = links_new(group->base.index, num_ranks);
    if (!mesh_connect(comm->mesh, number, ranks, num_ranks, group->links.fds, err)) {
        struct err lost = { 0 };
        err_set(&lost, ERR_SYSTEM, comm->where, "%s: %s", err->where, err->msg);
        fail_comm(comm, &lost);
        release_group(group);
        return NULL;
    }
    pthread_mutex_lock(&comm->mutex);
    group->next = comm->groups;
    comm->groups = group;
    pthread_mutex_unlock(&comm->mutex);
    return &group->base;
}

static void tcp_group_free(struct group *base)
{
    if (!base)
        return;
    struct tcp_group *group = (struct tcp_group *)base;
    pthread_mutex_lock(&base->comm->mutex);
    struct tcp_group **link = &base->comm->groups;
    while (*link != group)
        link = &(*link)->next;
    *link = group->next;
    pthread_mutex_unlock(&base->comm->mutex);
    release_group(group);
}

static bool tcp_poll(struct comm *comm, struct err *err)
{
    return failure_check(&comm->failure, err);
}

static void tcp_abort(struct comm *comm)
{
    struct err err = { 0 };
    err_set(&err, ERR_SYSTEM, comm->where, "communication was stopped");
    fail_comm(comm, &err);
}

const struct comm_api comm_tcp = {
    .name = "tcp",
    .device = "host",
    .open = tcp_open,
    .close = tcp_close,
    .group_new = tcp_group_new,
    .group_free = tcp_group_free,
    .issue = tcp_issue,
    .sent_bytes = tcp_sent_bytes,
    .poll = tcp_poll,
    .abort = tcp_abort,
};
